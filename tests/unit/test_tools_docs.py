"""docs/tools.md names all that there is."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

from agent_md import sdk
from agent_md.agents.spec import PathMount
from agent_md.tools.base import Tool, ToolOptions
from tests.support.builtins import given_tools
from tests.support.file_sandbox import sandbox_on

TEXT = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
TOOLS = given_tools(sandbox_on(Path("/nowhere"), [PathMount("a", "b")]))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_with_its_arguments(tool: Tool) -> None:
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| `{tool.name}` ")]
    arguments = row.split(" | ")[1]
    required = tool.parameters["required"]
    for name in tool.parameters["properties"]:
        assert f"`{name}{'' if name in required else '?'}`" in arguments


@pytest.mark.parametrize("name", [name for name in sdk.__all__ if inspect.isfunction(getattr(sdk, name))])
def test_every_function_of_the_sdk(name: str) -> None:
    assert f"`{name}" in TEXT


@pytest.mark.parametrize("field", dataclasses.fields(ToolOptions), ids=lambda field: field.name)
def test_every_option(field: dataclasses.Field[object]) -> None:
    assert f"`{field.name}`" in TEXT

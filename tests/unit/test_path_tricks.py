"""Over 200 ways to name a file out of bounds: each tool refuses all of them alike, and none reads or writes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import ToolError
from agent_md.tools.file_work import Commit
from agent_md.tools.files import FileTool
from tests.support.builtins import given_tools
from tests.support.file_sandbox import make_workspace, sandbox_on

TARGETS = (
    *("../outside.txt", "../ws-secret/key.txt", ".env", ".env.local", "agents/cleaner.md", "agents/team/helper.md"),
    *("agents/_config/tools/mine.py", ".agentmd/agentmd.log", "config.yaml", "data/runs.db", "data/runs.db-wal"),
    *(".git/config", "sub/.git/hooks/pre-commit", ".hg/hgrc"),
)
"""What exists, and is out of bounds, as seen from the workspace."""

WAYS: dict[str, Callable[[str, Path], str]] = {
    "plain": lambda target, ws: target,
    "dot": lambda target, ws: f"./{target}",
    "dots": lambda target, ws: f"././/.//{target}",
    "slashes": lambda target, ws: target.replace("/", "//"),
    "trailing slash": lambda target, ws: f"{target}/",
    "trailing dot": lambda target, ws: f"{target}/.",
    "up and down": lambda target, ws: f"sub/../{target}",
    "over a missing folder": lambda target, ws: f"nowhere/../{target}",
    "over the parent": lambda target, ws: f"../ws/{target}",
    "absolute": lambda target, ws: f"{ws}/{target}",
    "absolute twice": lambda target, ws: f"//{ws}//{target}",
    "absolute over another": lambda target, ws: f"{ws}/sub/.././../ws/{target}",
    "over a folder that is a link": lambda target, ws: f"here/{target}",
    "over two links": lambda target, ws: f"here/here/{target}",
    "over a link to the parent": lambda target, ws: f"up/ws/{target}",
    "by a link to it": lambda target, ws: f"links/{target.replace('/', '_')}",
    "by a link to the link": lambda target, ws: f"chain/{target.replace('/', '_')}",
}
WRITES = ("file_write", "file_edit", "file_move", "file_delete")
CALLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "file_read": lambda path: {"path": path},
    "file_write": lambda path: {"path": path, "content": "new"},
    "file_edit": lambda path: {"path": path, "old_text": "secret", "new_text": "new"},
    "file_move": lambda path: {"source": path, "destination": "taken"},
    "file_delete": lambda path: {"path": path},
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = make_workspace(tmp_path_factory.mktemp("tricks").resolve())
    os.symlink(".", made / "here")
    os.symlink("..", made / "up")
    for folder in ("links", "chain"):
        (made / folder).mkdir()
    for target in TARGETS:
        name = target.replace("/", "_")
        os.symlink(f"../{target}", made / "links" / name)
        os.symlink(f"../links/{name}", made / "chain" / name)
    return made


def test_the_table_has_over_two_hundred() -> None:
    assert len({(way, target) for way in WAYS for target in TARGETS}) > 200


@pytest.mark.parametrize("way", WAYS)
def test_none_is_reached(workspace: Path, way: str) -> None:
    tools = {tool.name: tool for tool in given_tools(sandbox_on(workspace)) if isinstance(tool, FileTool)}
    for target in TARGETS:
        path = WAYS[way](target, workspace)
        kept = (workspace / target).read_bytes()
        told = {name: refused(tools[name], args(path)) for name, args in CALLS.items()}
        told["file_move to it"] = refused(tools["file_move"], {"source": "notes.txt", "destination": path})
        assert len(set(told.values())) == 1, (path, told)
        assert "is not a path that this agent may use" in told["file_read"]
        assert (workspace / target).read_bytes() == kept
        assert (workspace / "notes.txt").exists()
        assert not (workspace / "taken").exists()


def refused(tool: FileTool, args: dict[str, Any]) -> str:
    with pytest.raises(ToolError) as error:
        tool.perform(args, tool.plan(args), Commit())
    for step in (tool.subjects, tool.effects):
        with pytest.raises(ToolError):
            step(args)
    return str(error.value)


@pytest.mark.parametrize(
    "path", ["%2e%2e/outside.txt", "..\\outside.txt", "\u2025/outside.txt", "file:///outside.txt", "..;/x"]
)
def test_what_only_looks_like_a_way_out_is_a_name_inside(workspace: Path, path: str) -> None:
    assert sandbox_on(workspace).resolve(path, write=True).path.is_relative_to(workspace)


@pytest.mark.parametrize(
    "path", ["~/x", "~root/x", "a\0b", "x" * 5000, "/proc/self/environ", "/dev/stdin", "/sys/power/state"]
)
def test_what_no_path_may_be(workspace: Path, path: str) -> None:
    with pytest.raises(ToolError, match="is not a path that this agent may use"):
        sandbox_on(workspace).resolve(path, write=False)

"""docs/cli.md has every command and every option, and no other; each of them says what it does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from agent_md.cli.commands import COMMANDS as TABLE
from agent_md.cli.main import app

TEXT = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def section(command: str) -> str:
    found = re.search(rf"^## {command}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, f"docs/cli.md has no section about {command}"
    return found[1]


def options_of(command: str) -> list[Any]:
    return [parameter for parameter in COMMANDS[command].params if parameter.param_type_name == "option"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_is_listed_and_described(command: str) -> None:
    arguments = [p for p in COMMANDS[command].params if p.param_type_name == "argument"]
    names = [p.metavar + ("…" if p.nargs == -1 else "") for p in arguments]
    usage = " ".join([command, *(n if p.required else f"[{n}]" for n, p in zip(names, arguments, strict=True))])
    assert f"| [`{usage}`](#{command}) |" in TEXT
    assert f"`agentmd {usage}" in section(command) or f"`agentmd {command}" in section(command)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_is_described_and_no_other(command: str) -> None:
    rows = "\n".join(line.split(" | ")[0] for line in section(command).splitlines() if line.startswith("| `-"))
    documented = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rows))
    existing = {name for option in options_of(command) for name in option.opts}
    assert documented == existing


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_says_what_everything_does(command: str) -> None:
    assert "Example: agentmd " in COMMANDS[command].help
    assert all(parameter.help for parameter in COMMANDS[command].params)
    summary = TABLE[command].summary
    assert COMMANDS[command].get_short_help_str(limit=200) == summary
    assert len(summary) <= 67, "the list of commands would cut it at 80 columns"


def test_the_options_of_agentmd_itself() -> None:
    for name in ("--workspace", "--version", "--help"):
        assert name in TEXT

"""Placeholders in the MCP file, as Claude Code, Cursor and VS Code write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from agent_md.errors import ConfigInvalid

__all__ = ["expanded", "variables"]

_PLACEHOLDER = re.compile(r"\$\{(?P<inner>[^{}]*)\}")
_NAME = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)
_PLACES = ("workspaceFolder", "workspaceFolderBasename", "userHome", "pathSeparator", "/")
_INPUT = "input:"


def variables(text: str) -> list[str]:
    """The environment variables that the text is filled with, in order."""
    found = (_variable(match["inner"]) for match in _PLACEHOLDER.finditer(text))
    return [name for name, _ in filter(None, found)]


def expanded(text: str, environ: Mapping[str, str], workspace: Path, home: Path, where: str) -> str:
    """The text with its placeholders filled in; what was put in is not looked at again.

    `${NAME}`, `${env:NAME}` and `${NAME:-default}` are variables, `${input:some-id}` is the variable `SOME_ID`, and
    `${workspaceFolder}` and `${userHome}` are folders. Raises ConfigInvalid, beginning with `where`, for a variable that
    is not set, and for any other placeholder.
    """
    places = {
        "workspaceFolder": str(workspace),
        "workspaceFolderBasename": workspace.name,
        "userHome": str(home),
        "pathSeparator": "/",
        "/": "/",
    }

    def fill(match: re.Match[str]) -> str:
        inner = match["inner"]
        if inner in places:
            return places[inner]
        variable = _variable(inner)
        if variable is None:
            raise ConfigInvalid(
                f"{where}: ${{{inner}}} is no placeholder that is known; write ${{NAME}} for a variable of the environment"
            )
        name, default = variable
        value = environ.get(name)
        if not value and default is not None:
            value = default
        if value is None:
            raise ConfigInvalid(
                f"{where}: ${{{inner}}} needs the variable {name}, which is not set; set it in the environment or in .env"
            )
        return value

    return _PLACEHOLDER.sub(fill, text)


def _variable(inner: str) -> tuple[str, str | None] | None:
    """The variable that a placeholder stands for, and what stands in for it; None for other placeholders."""
    if inner in _PLACES:
        return None
    if inner.startswith(_INPUT):
        name = re.sub(r"[^A-Za-z0-9]+", "_", inner.removeprefix(_INPUT)).upper()
        return (name, None) if name and not name[0].isdigit() else None
    found = _NAME.fullmatch(inner)
    return None if found is None else (found["name"], found["default"])

"""Finds the folder of the workspace. Reads only."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from agent_md.agents.files import Unreadable, decode, read_file
from agent_md.agents.registry import agent_files
from agent_md.agents.yaml_positions import MAX_BYTES
from agent_md.errors import ConfigInvalid

__all__ = ["NoWorkspace", "NotAFolder", "at_home", "find_workspace"]

_LOOKED_AT = 50
_STRAYS_SHOWN = 3


class NoWorkspace(ConfigInvalid):
    """No workspace was named, and there is none around."""


class NotAFolder(ConfigInvalid):
    """The workspace that was named is no folder."""


def find_workspace(given: Path | None, environ: Mapping[str, str], cwd: Path, home: Path) -> tuple[Path, str]:
    """The workspace, and what it was found by: `--workspace`, a variable, `current folder` (it or one above) or
    `~/agentmd`. Raises NoWorkspace saying where it was looked for, NotAFolder for a named one."""
    named_by = ""
    variable = environ.get("AGENTMD_WORKSPACE")
    if given is None and variable:
        given, named_by = Path(variable), "AGENTMD_WORKSPACE"
    if given is not None:
        path = cwd / at_home(str(given), home)
        if not os.path.isdir(path):
            names = f"{named_by} names" if named_by else "the workspace was given as"
            raise NotAFolder(f"{names} {path}, which is not a folder; create it, or name another")
        return path.resolve(), named_by or "--workspace"
    for folder in (cwd, *cwd.parents):
        if os.path.isdir(folder / ".agentmd") or next(agent_files(folder / "agents"), None):
            return folder.resolve(), "current folder"
    if os.path.isdir(home / "agentmd"):
        return (home / "agentmd").resolve(), "~/agentmd"
    raise NoWorkspace(
        f"no workspace found: neither {cwd} nor a folder above it has .agentmd/, or agents/ with an agent file, and "
        f"{home / 'agentmd'} does not exist; {_first_step(cwd)}, or name a workspace with --workspace or AGENTMD_WORKSPACE"
    )


def _first_step(folder: Path) -> str:
    """What to do in a folder that is no workspace, in which there may be agent files in the wrong place."""
    step = "`agentmd new NAME` makes a first agent here"
    strays = [path.name for path in sorted(folder.glob("*.md"))[:_LOOKED_AT] if _begins_like_an_agent(path)]
    if not 0 < len(strays) <= _STRAYS_SHOWN:
        return step
    looks = "looks like one" if len(strays) == 1 else "look like some"
    return f"{step} ({', '.join(strays)} {looks}, but agents live in agents/)"


def _begins_like_an_agent(path: Path) -> bool:
    try:
        return decode(read_file(path, MAX_BYTES)).lstrip().startswith("---\n")
    except Unreadable:
        return False


def at_home(text: str, home: Path) -> Path:
    """The path that a text names, with `~` for the home folder."""
    return home / text[2:] if text == "~" or text.startswith("~/") else Path(text)

"""The files that a sandboxed process can see: those of the agent's file tools, and the tools folder, read-only."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from agent_md.errors import ToolError
from agent_md.isolation.bubblewrap import Mount, View
from agent_md.tools.forbidden import ForbiddenPlaces, real_path
from agent_md.tools.path_sandbox import Root, Sandbox
from agent_md.tools.user_files import VERSION_CONTROL

__all__ = ["forbidden_names", "view_of"]

_SEARCH_LIMIT = 200_000
"""Entries looked through for what must not be seen."""


def view_of(sandbox: Sandbox, tools_dir: Path, *, writable: bool) -> View:
    """The declared paths, or else the workspace, as they are now; without `writable` all of it only to read.

    What is forbidden to file tools is empty there: the folder of agents, `.env*`, what version control keeps, the
    state of the workspace, the user's own files. A declared path that does not exist is not there. Raises ToolError for
    paths that hold a home folder, and for more files than can be looked through.
    """
    places = sandbox.forbidden()
    roots = [root for root in sandbox.roots() if root.path.exists() and not places.forbid(root.path, root.path)]
    for root in roots:
        _check_homes(root, places)
    hidden = [*_hidden(roots, places)]
    if not any(sandbox.workspace.is_relative_to(root.path) for root in roots):
        hidden.append(sandbox.workspace)  # where the tools begin; only its declared paths are in it
    tools = real_path(tools_dir)
    return View(
        mounts=tuple(Mount(root.path, writable and root.writable) for root in roots),
        hidden=tuple(hidden),
        shown=(tools,) if tools.is_dir() else (),
    )


def _check_homes(root: Root, places: ForbiddenPlaces) -> None:
    for home in places.homes:
        if root.path.is_dir() and home.is_relative_to(root.path) and home.is_dir():
            raise ToolError(
                f"{root.path} holds the home folder {home}, where other programs keep what they obey; for `sandbox` "
                "declare folders in it under `paths`"
            )


def _hidden(roots: list[Root], places: ForbiddenPlaces) -> Iterator[Path]:
    for path, is_closed in forbidden_names(roots, places):
        if not is_closed and not os.path.islink(path):  # what a link leads to counts, by its own place
            yield Path(path)


def forbidden_names(roots: Sequence[Root], places: ForbiddenPlaces) -> Iterator[tuple[str, bool]]:
    """What is forbidden in the roots by its name or place, links too, and what cannot be looked through.

    Of what cannot be looked through the second value is True. What is in a forbidden folder is left out. Raises
    ToolError for more files than can be looked through.
    """
    around = [folder for folder in places.agents if any(root.path.is_relative_to(folder) for root in roots)]
    exact = {str(path) for path in (*places.folders, *places.files, *places.agents) if path not in around}
    agents = tuple(f"{folder}{os.sep}" for folder in around)
    left = _SEARCH_LIMIT
    folders = deque(os.fspath(root.path) for root in roots if root.path.is_dir())
    seen: set[str] = set()
    while folders:
        folder = folders.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        entries = _entries(folder)
        if entries is None:
            yield folder, True
            continue
        for entry in entries:
            left -= 1
            if left < 0:
                raise ToolError(
                    f"the paths of this agent hold more than {_SEARCH_LIMIT} files, too many to look through for those "
                    "that a sandbox must not show; declare fewer of them under `paths`"
                )
            if _is_forbidden(entry, exact, agents, places):
                yield entry.path, False
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)


def _is_forbidden(entry: os.DirEntry[str], exact: set[str], agents: tuple[str, ...], places: ForbiddenPlaces) -> bool:
    """As `places.forbid`, which takes long for many names."""
    if not entry.name.isascii():
        path = Path(entry.path)
        return places.forbid(path, path.parent)
    name = entry.name.casefold()
    if name.startswith(".env") or name == "_config" or name in VERSION_CONTROL or entry.path in exact:
        return True
    return name.endswith(".md") and entry.path.startswith(agents)


def _entries(folder: str) -> list[os.DirEntry[str]] | None:
    """None for a folder that is there and cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError:
        return None

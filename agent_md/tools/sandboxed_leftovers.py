"""What a sandboxed process created under a name that file tools refuse, such as `.git`, is renamed after the call."""

from __future__ import annotations

import logging
import os
import secrets
from contextlib import suppress
from pathlib import Path

from agent_md.errors import ToolError
from agent_md.tools.forbidden import SIDE_FILES
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.results import one_line
from agent_md.tools.sandboxed_view import forbidden_names

__all__ = ["Leftovers"]

_MOST_TOLD = 5

_Known = tuple[int, int, str, str | None]
"""A name by the device and number of its folder, which may have been moved, and where it leads if it is a link."""


class Leftovers:
    """The forbidden names in what an agent may write, as they are when this is made."""

    def __init__(self, sandbox: Sandbox) -> None:
        """Raises ToolError for more files than can be looked through."""
        self._sandbox = sandbox
        self._places = sandbox.forbidden()
        self._roots = [
            root for root in sandbox.roots() if root.writable and not self._places.forbid(root.path, root.path)
        ]
        # SQLite creates these beside a database in use.
        self._of_databases = {f"{file}{suffix}" for file in self._places.files for suffix in SIDE_FILES if suffix}
        self._known = {_known(path) for path, _ in forbidden_names(self._roots, self._places)}

    def set_aside(self) -> None:
        """Renames the forbidden names that are new. Raises ToolError if there are any; nothing is deleted, for another
        program may have created them."""
        found, problem = [], ""
        try:
            for path, _ in forbidden_names(self._roots, self._places):
                if _known(path) not in self._known and path not in self._of_databases:
                    found.append(path)
        except ToolError as error:
            problem = f"it was not looked through to the end: {error}"
        told = [self._renamed(Path(path)) for path in found]
        if len(told) > _MOST_TOLD:
            told[_MOST_TOLD:] = [f"and {len(told) - _MOST_TOLD} more"]
        if problem:
            told.append(problem)
        if told:
            text = "while the tool ran there appeared what no tool of this agent may create: " + "; ".join(told)
            logging.getLogger("agent_md").warning("%s", text)  # nobody waits for a call that was ended
            raise ToolError(text)

    def _renamed(self, path: Path) -> str:
        """Renames it, in its folder and through no link, and tells what was done."""
        shown = one_line(str(path), 300)
        if any(path == root.path for root in self._roots):
            return f"{shown} can no longer be looked through"
        name = f"from-sandbox-{secrets.token_hex(4)}"
        try:
            with self._sandbox.open_folder(path.parent, str(path)) as folder:
                if folder is None:
                    return f"{shown} was gone again"
                with suppress(FileNotFoundError):
                    os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        except (OSError, ToolError) as error:
            return f"{shown} could not be renamed: {one_line(str(error), 200)}"
        return f"{shown} is now named {name}"


def _known(path: str) -> _Known:
    folder, name = os.path.split(path)
    target: str | None = None
    with suppress(OSError):
        target = os.readlink(path)
    try:
        found = os.stat(folder)
    except OSError:
        return 0, 0, path, target
    return found.st_dev, found.st_ino, name, target

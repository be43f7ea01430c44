"""Finds the program that a command would start, and says whether the agent could have made or changed it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_md.errors import ToolError
from agent_md.tools.forbidden import real_path
from agent_md.tools.path_sandbox import shown_path

__all__ = ["Program", "find_program", "search_path"]

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Program:
    """A program: where it was found, and what that leads to; both absolute. `outside`: neither is in a folder that the agent
    may write to."""

    path: Path
    real: Path
    outside: bool

    def digest(self) -> str:
        """SHA-256 of its content. Raises ToolError if it cannot be read."""
        digest = hashlib.sha256()
        try:
            with open(self.real, "rb") as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except PermissionError:  # it may be run, not read
            return "unreadable"
        except OSError as error:
            raise ToolError(f"{shown_path(str(self.real))} cannot be read: {error.strerror}") from None
        return digest.hexdigest()


def search_path(folders: str, writable: Sequence[Path]) -> str:
    """The folders of a PATH in which programs are looked for: the absolute ones that the agent may not write to."""
    kept = (folder for folder in folders.split(os.pathsep) if os.path.isabs(folder))
    return os.pathsep.join(folder for folder in kept if not _is_in(real_path(Path(folder)), writable))


def find_program(name: str, folder: Path, folders: str, writable: Sequence[Path]) -> Program:
    """The program of a command that is started in `folder`: a plain name is looked for in the PATH `folders`, and never
    found where the agent may write. Raises ToolError if there is none."""
    if "/" in name:
        path = Path(os.path.abspath(folder / name))
        found = _program(path, writable)
        if found is None:
            raise ToolError(f"there is no program {shown_path(name)}, or it may not be executed")
        return found
    for path in _candidates(name, folders):
        found = _program(path, writable)
        if found is not None and found.outside:
            return found
    raise ToolError(
        f"there is no program {shown_path(name)} on the PATH outside of the folders that this agent may change"
    )


def _candidates(name: str, folders: str) -> Iterator[Path]:
    for folder in folders.split(os.pathsep):
        if os.path.isabs(folder) and name not in ("", ".", ".."):
            yield Path(folder) / name


def _program(path: Path, writable: Sequence[Path]) -> Program | None:
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return None
    real = real_path(path)
    outside = not any(_is_in(place, writable) for place in (path, real, real_path(path.parent)))
    return Program(path, real, outside)


def _is_in(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)

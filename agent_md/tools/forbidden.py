"""The files that no file tool may access, by name, by location and by identity."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent_md.tools.user_files import VERSION_CONTROL, UserFiles

__all__ = ["SIDE_FILES", "Forbidden", "ForbiddenPlaces", "real_path"]

SIDE_FILES = ("", "-wal", "-shm", "-journal")
_SYSTEM = ("proc", "sys", "dev")
"""Folders at the top that show the system instead of files."""
_MEMORY = ("dev", "shm")
_SEARCH_LIMIT = 200_000
"""Entries looked through for the other names of a file; what is not found out by then counts as forbidden."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """Where the files are that keep agents in bounds.

    `.env*` and `_config` are forbidden by name in every root; every `.md` below `agents_dir` is an agent file or its
    memory. `folders` are forbidden as a whole: the state dir, and the folders of tools and skills. `files` are single
    ones, the databases and config.yaml above all, with what SQLite puts beside them; they need not exist. `of_user` are
    the user's own. `/proc`, `/sys` and `/dev` (but `/dev/shm`), and what version control keeps, are always forbidden.
    """

    agents_dir: Path
    folders: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    of_user: UserFiles = field(default_factory=UserFiles)

    def look(self) -> ForbiddenPlaces:
        """The places as they are now, links followed: an agent file may live elsewhere and be linked to."""
        agents = real_path(self.agents_dir)
        linked = [(link.name, real_path(Path(link.path))) for link in _files_below(agents) if link.is_symlink()]
        databases = [Path(f"{real_path(file)}{suffix}") for file in self.files for suffix in SIDE_FILES]
        folders = (self.agents_dir / "_config", *self.folders, *self.of_user.folders())
        return ForbiddenPlaces(
            agents=(agents, *(target for _, target in linked)),
            folders=tuple(real_path(folder) for folder in folders),
            files=(
                *databases,
                *(target for name, target in linked if _folded(name).endswith(".md")),
                *(real_path(file) for file in self.of_user.hidden_files()),
            ),
            homes=tuple(real_path(home) for home in self.of_user.homes),
        )


@dataclass(frozen=True, slots=True)
class ForbiddenPlaces:
    """The forbidden places at one moment, without links. `agents`: folders in which every `.md` is forbidden; `homes`:
    folders in which what is hidden is."""

    agents: tuple[Path, ...]
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    homes: tuple[Path, ...] = ()

    def forbid(self, real: Path, below: Path) -> bool:
        """Whether the file or folder at `real`, a path without links, is forbidden by a name below the folder `below`
        or by its place. Case and width of letters do not matter: a file system may ignore them too."""
        names = real.relative_to(below).parts or (real.name,)
        if any(name.startswith(".env") or name == "_config" for name in map(_folded, names)):
            return True
        place = _folded_parts(real)
        if not VERSION_CONTROL.isdisjoint(place):
            return True
        if place[1:2] and place[1] in _SYSTEM and place[1:3] != _MEMORY:
            return True
        if any(_is_below(place, folder) for folder in self.folders):
            return True
        if any(place == _folded_parts(file) for file in self.files) or self._is_hidden_at_home(place, below):
            return True
        return place[-1].endswith(".md") and any(_is_below(place, folder) for folder in self.agents)

    def have(self, found: os.stat_result, roots: Sequence[Path]) -> bool:
        """Whether `found`, a file in one of `roots`, has a forbidden name as well (a hard link)."""
        if found.st_nlink < 2:
            return False
        if any(_is_same_file(found, file) for file in self.files):
            return True
        left = _SEARCH_LIMIT
        tops = (*self.agents, *self.folders, *roots)
        for top in _outermost(top for top in tops if _is_on(top, found.st_dev)):
            for entry in _files_below(top):
                left -= 1
                if left < 0:
                    return True
                if entry.inode() == found.st_ino and self.forbid(Path(entry.path), top):
                    return True
        return False

    def _is_hidden_at_home(self, place: tuple[str, ...], below: Path) -> bool:
        """Whether it is hidden in a home. What is below a hidden folder is not, if `below` is in that folder too."""
        for home in self.homes:
            depth = len(home.parts)
            if _is_below(place, home) and place[depth : depth + 1] and place[depth].startswith("."):
                return len(place) == depth + 1 or _folded_parts(below)[: depth + 1] != place[: depth + 1]
        return False


def real_path(path: Path) -> Path:
    """The path with all links followed; what does not exist is kept as it is."""
    return Path(os.path.realpath(path))


def _folded(name: str) -> str:
    """The name as a file system may take it that ignores case, width, and characters without a shape."""
    if name.isascii():
        return name.casefold()
    shown = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", shown).casefold()


def _folded_parts(path: Path) -> tuple[str, ...]:
    return tuple(_folded(part) for part in path.parts)


def _is_below(place: tuple[str, ...], folder: Path) -> bool:
    parts = _folded_parts(folder)
    return place[: len(parts)] == parts


def _is_on(path: Path, device: int) -> bool:
    """Whether the folder is on this device: a file has no other name elsewhere."""
    try:
        return path.stat().st_dev == device
    except OSError:
        return False


def _is_same_file(found: os.stat_result, path: Path) -> bool:
    try:
        other = path.stat()
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (other.st_dev, other.st_ino)


def _outermost(folders: Iterable[Path]) -> list[Path]:
    chosen: list[Path] = []
    for folder in sorted(set(folders), key=lambda path: len(path.parts)):
        if not any(folder.is_relative_to(other) for other in chosen):
            chosen.append(folder)
    return chosen


def _files_below(top: Path) -> Iterator[os.DirEntry[str]]:
    """Everything below `top` but folders; links are given, not followed. What cannot be read is left out."""
    folders = [os.fspath(top)]
    while folders:
        try:
            with os.scandir(folders.pop()) as found:
                entries = list(found)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                yield entry

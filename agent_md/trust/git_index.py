"""Whether git tracks files below a place; told by its index alone, since git itself runs what a repository tells it to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent_md.agents.files import Unreadable, read_file

__all__ = ["tracks_below"]

_MOST_BYTES = 256 * 1024 * 1024


def tracks_below(workspace: Path, place: Path) -> bool:
    """Whether the repository around the workspace tracks `place` or a file below it. Also true where that is unclear."""
    for folder in (workspace, *workspace.parents):
        git = folder / ".git"
        if os.path.lexists(git):
            path, found = os.fsencode(os.path.relpath(place, folder)), _git_folder(git)
            try:
                return any(_is_in_index(index, path) for index in (found / "index", *found.glob("sharedindex.*")))
            except (IndexError, ValueError):  # it is cut, or of a form that is not known
                return True
    return False


def _git_folder(git: Path) -> Path:
    """Of a worktree or submodule `.git` is a file that names it."""
    if git.is_dir():
        return git
    with suppress(Unreadable, UnicodeDecodeError):
        named = read_file(git, 10_000).decode().partition("gitdir:")[2].strip()
        if named:
            return git.parent / named
    return git


def _is_in_index(index: Path, path: bytes) -> bool:
    try:
        data = read_file(index, _MOST_BYTES)
    except Unreadable:
        return os.path.lexists(index)
    version = int.from_bytes(data[4:8], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        return True
    if version < 4:  # the whole path of each file stands in it
        return path + b"/" in data or path + b"\0" in data
    return any(name == path or name.startswith(path + b"/") for name in _names(data, _digest_bytes(index.parent)))


def _digest_bytes(git: Path) -> int:
    with suppress(Unreadable):
        if b"sha256" in read_file(git / "config", _MOST_BYTES).lower():
            return 32
    return 20


def _names(data: bytes, digest_bytes: int) -> Iterator[bytes]:
    """The paths of an index of version 4, in which each says how much of the one before it shares."""
    at, name = 12, b""
    for _ in range(int.from_bytes(data[8:12], "big")):
        flags = at + 40 + digest_bytes
        at = flags + (4 if data[flags] & 0x40 else 2)
        dropped, at = _varint(data, at)
        end = data.index(b"\0", at)
        name = name[: len(name) - dropped] + data[at:end]
        at = end + 1
        yield name


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number as git packs it, and where it ends."""
    value = data[at] & 0x7F
    while data[at] & 0x80:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 0x7F)
    return value, at + 1

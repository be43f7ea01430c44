"""Linux, through `/proc`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from agent_md.system.port import Mount, Process
from agent_md.system.posix import Posix, process

__all__ = ["Linux"]

_STATE, _START = 0, 19
"""Places in `stat` after the name: the state, and the start in ticks since the boot."""


class Linux(Posix):
    """`agent_md.system.System`; `proc` is where that file system is mounted."""

    longest_socket_path = 107
    out_of_watches = "if its watches are used up, raise fs.inotify.max_user_watches"

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc

    def boot_id(self) -> str:
        try:
            return (self._proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""

    def start_of(self, pid: int) -> str:
        stat = _stat(self._proc / str(pid))
        return stat[_START] if len(stat) > _START else ""

    def lock_holders(self, file: Path, *, byte: int | None = None) -> list[Process]:
        """A lock that a fork shares is held by each that shares it."""
        try:
            wanted = file.stat()
            pids = sorted(int(entry.name) for entry in self._proc.iterdir() if entry.name.isdecimal())
        except OSError:
            return []
        place = (wanted.st_dev, wanted.st_ino)
        return [_process(self._proc / str(pid)) for pid in pids if _holds(self._proc / str(pid), place, byte)]

    def mounts(self) -> Sequence[Mount]:
        try:
            text = (self._proc / "self/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ()
        lines = [line.split(" ") for line in text.split("\n")]
        return [Mount(Path(_unescaped(line[1])), line[2]) for line in lines if len(line) > 2]


def _holds(folder: Path, wanted: tuple[int, int], byte: int | None) -> bool:
    try:
        descriptors = list((folder / "fd").iterdir())
    except OSError:  # it has ended, or is of another user
        return False
    for descriptor in descriptors:
        try:
            found = descriptor.stat()
            if (found.st_dev, found.st_ino) != wanted:
                continue
            info = (folder / "fdinfo" / descriptor.name).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        if any(_counts(line.split(), byte) for line in info.splitlines() if line.startswith("lock:")):
            return True
    return False


def _counts(words: list[str], byte: int | None) -> bool:
    """Whether a line such as `lock: 1: POSIX  ADVISORY  WRITE 12 fe:00:34 120 120` is of the lock that is meant."""
    match words:
        case [_, _, "FLOCK", _, "WRITE", *_]:
            return byte is None
        case [_, _, _, _, "WRITE", _, _, first, last] if byte is not None:
            return int(first) <= byte and (last == "EOF" or byte <= int(last))
        case _:
            return False


def _process(folder: Path) -> Process:
    try:
        words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    stat = _stat(folder)
    return process(int(folder.name), words, stat[_STATE] if stat else "")


def _stat(folder: Path) -> list[str]:
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _unescaped(path: str) -> str:
    """Blanks and backslashes are listed as their octal codes."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)

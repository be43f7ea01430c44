"""Which processes hold a lock of a file, told by Linux's `/proc`; where there is none, nobody is named."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

__all__ = ["PROC", "Process", "holders_of", "named", "start_of", "way_to_end"]

PROC = Path("/proc")
_SHOWN = 100
_STATE, _START = 0, 19
"""Places in `stat` after the name: the state, and the start in ticks since the boot."""


class Process(NamedTuple):
    """A process of this machine. `command` is its command line up to the first long option, since the values of those
    may be secrets; "" where it cannot be seen."""

    pid: int
    command: str
    stopped: bool = False

    def __str__(self) -> str:
        about = ", ".join(filter(None, ("stopped" if self.stopped else "", self.command)))
        return f"process {self.pid}" + (f" ({about})" if about else "")


def holders_of(path: Path, *, byte: int | None = None, proc: Path = PROC) -> list[Process]:
    """The processes that hold a lock of the file for writing; with `byte` a record lock on that byte. By number.

    Only those whose files this user may see. A lock that a fork shares is held by each that shares it."""
    try:
        wanted = path.stat()
        pids = sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal())
    except OSError:
        return []
    return [_process(proc, pid) for pid in pids if _holds(proc / str(pid), (wanted.st_dev, wanted.st_ino), byte)]


def _holds(process: Path, wanted: tuple[int, int], byte: int | None) -> bool:
    try:
        descriptors = list((process / "fd").iterdir())
    except OSError:  # it has ended, or is of another user
        return False
    for descriptor in descriptors:
        try:
            found = descriptor.stat()
            if (found.st_dev, found.st_ino) != wanted:
                continue
            info = (process / "fdinfo" / descriptor.name).read_text(encoding="ascii", errors="replace")
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


def _process(proc: Path, pid: int) -> Process:
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        words = []
    line = " ".join(takewhile(lambda word: not word.startswith("--"), words)).strip()
    stat = _stat(proc, pid)
    command = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
    return Process(pid, command, stopped=bool(stat) and stat[_STATE] in ("T", "t"))


def _stat(proc: Path, pid: int) -> list[str]:
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def start_of(pid: int, *, proc: Path = PROC) -> str:
    """When a living process began, as a number of the system's own, which with `pid` names it for ever in one boot; ""
    if there is none of this number, or it cannot be seen."""
    stat = _stat(proc, pid)
    return stat[_START] if len(stat) > _START else ""


def named(processes: list[Process]) -> str:
    """Them in a sentence."""
    return ", ".join(map(str, processes))


def way_to_end(processes: list[Process]) -> str:
    """The command that ends them."""
    return f"`kill {' '.join(str(process.pid) for process in processes)}`"

"""The port for calls that differ between operating systems; one implementation for each system.

Where a system cannot tell, an implementation says so, and what its callers then do is safe: a process that cannot be
seen is taken for alive, a file system that is not listed for local.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

__all__ = ["Mount", "Process", "System", "named", "way_to_end"]


class Process(NamedTuple):
    """A process of this machine. `command` is its command line up to the first long option, since the values of those
    may be secrets; "" where it cannot be seen."""

    pid: int
    command: str
    stopped: bool = False

    def __str__(self) -> str:
        about = ", ".join(filter(None, ("stopped" if self.stopped else "", self.command)))
        return f"process {self.pid}" + (f" ({about})" if about else "")


class Mount(NamedTuple):
    """A file system, by its type, and the folder at which it begins."""

    folder: Path
    kind: str


class System(Protocol):
    """An operating system. No method raises OSError, but `sync`."""

    longest_socket_path: int
    """Bytes that the path of a Unix socket may have."""

    out_of_watches: str
    """What to do when no more folders can be watched, to be put behind a semicolon; "" if that does not happen."""

    def boot_id(self) -> str:
        """Names the time since the machine started; "" where nothing tells it."""

    def start_of(self, pid: int) -> str:
        """When a living process began, which with `pid` names it for ever in one boot; "" if there is none of this
        number, or it cannot be seen."""

    def lock_holders(self, file: Path, *, byte: int | None = None) -> list[Process]:
        """The processes that hold a lock of the file for writing; with `byte`, a record lock on that byte. Sorted by
        number; only those that this user can see; empty if the system does not tell."""

    def mounts(self) -> Sequence[Mount]:
        """The mounted file systems, later ones over earlier ones; none where they are not listed."""

    def sync(self, descriptor: int) -> None:
        """Returns when what was written to a file, or to the names in a folder, survives a loss of power. Raises
        OSError."""


def named(processes: Sequence[Process]) -> str:
    """Them in a sentence."""
    return ", ".join(map(str, processes))


def way_to_end(processes: Sequence[Process]) -> str:
    """The command that ends them."""
    return f"`kill {' '.join(str(process.pid) for process in processes)}`"

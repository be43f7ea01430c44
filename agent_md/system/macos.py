"""macOS, through its commands, since it has no `/proc`."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from agent_md.system.port import Mount, Process
from agent_md.system.posix import Posix, process

__all__ = ["MacOs"]

_PATIENCE_S = 5.0
_MOUNT = re.compile(r".+? on (?P<folder>/.*) \((?P<kind>[^,)]+)[^()]*\)")
_FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", 51)


def _printed(command: Sequence[str]) -> str:
    try:
        ended = subprocess.run(
            command,
            env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return ended.stdout.decode("utf-8", "surrogateescape")


def _control(descriptor: int, command: int) -> None:
    fcntl.fcntl(descriptor, command)


class MacOs(Posix):
    """`agent_md.system.System`. `printed` is the standard output of a command, "" if it cannot be run; `control` asks
    something of the system about a file."""

    def __init__(
        self,
        printed: Callable[[Sequence[str]], str] = _printed,
        control: Callable[[int, int], object] = _control,
    ) -> None:
        self._printed = printed
        self._control = control

    def boot_id(self) -> str:
        return self._printed(["sysctl", "-n", "kern.bootsessionuuid"]).strip()

    def start_of(self, pid: int) -> str:
        """To the second, in which no number is given twice."""
        return " ".join(self._printed(["ps", "-o", "lstart=", "-p", str(pid)]).split())

    def lock_holders(self, file: Path, *, byte: int | None = None) -> list[Process]:
        """Those that have the file open: locks are not shown. So nobody is named for a record lock, of a file that many
        have open."""
        if byte is not None:
            return []
        listed = self._printed(["lsof", "-nPw", "-F", "p", "--", os.fspath(file)])
        pids = sorted({int(line[1:]) for line in listed.splitlines() if re.fullmatch(r"p[0-9]+", line)} - {os.getpid()})
        return [self._process(pid) for pid in pids]

    def mounts(self) -> Sequence[Mount]:
        found = map(_MOUNT.fullmatch, self._printed(["mount"]).splitlines())
        return [Mount(Path(line["folder"]), line["kind"]) for line in found if line is not None]

    def sync(self, descriptor: int) -> None:
        """`fsync` leaves the data in the cache of the drive; what cannot do more than that does that."""
        with suppress(OSError):
            self._control(descriptor, _FULL_SYNC)
            return
        os.fsync(descriptor)

    def _process(self, pid: int) -> Process:
        state, *words = self._printed(["ps", "-o", "state=,command=", "-p", str(pid)]).split() or [""]
        return process(pid, words, state)

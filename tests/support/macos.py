"""macOS without a Mac: its commands answer as they were recorded, and its files are those of this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from agent_md.system.macos import MacOs

__all__ = ["MOUNTED", "FakeMac"]

MOUNTED = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse, protect, root data)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
//ann@server/share on /Volumes/my share (1) (smbfs, nodev, nosuid, mounted by ann)
"""


class FakeMac:
    """Keeps what was asked. `said` are outputs by the words of a command; any other one cannot be run."""

    def __init__(self, said: Mapping[str, str] | None = None, *, full_sync: bool = True) -> None:
        self.said = dict(said or {})
        self.synced: list[int] = []
        self._full_sync = full_sync
        self.system = MacOs(self._print, self._control)

    def _print(self, command: Sequence[str]) -> str:
        return self.said.get(" ".join(command), "")

    def _control(self, descriptor: int, command: int) -> None:
        if not self._full_sync:
            raise OSError(45, "Operation not supported")
        os.fstat(descriptor)  # it must be open
        self.synced.append(command)

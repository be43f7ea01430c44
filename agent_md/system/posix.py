"""Other POSIX systems, of which nothing more is known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

from agent_md.system.port import Mount, Process

__all__ = ["Posix", "process"]

_SHOWN = 100


class Posix:
    """`agent_md.system.System` that cannot tell; what other systems are derived from."""

    longest_socket_path = 103  # that of macOS and the BSDs
    out_of_watches = ""

    def boot_id(self) -> str:
        return ""

    def start_of(self, pid: int) -> str:
        return ""

    def lock_holders(self, file: Path, *, byte: int | None = None) -> list[Process]:
        return []

    def mounts(self) -> Sequence[Mount]:
        return ()

    def sync(self, descriptor: int) -> None:
        os.fsync(descriptor)


def process(pid: int, words: Sequence[str], state: str) -> Process:
    """A process by the words of its command line and the letter of its state."""
    line = " ".join(takewhile(lambda word: not word.startswith("--"), words)).strip()
    command = line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
    return Process(pid, command, stopped=state[:1] in ("T", "t"))

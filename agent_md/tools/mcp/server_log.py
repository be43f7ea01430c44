"""What a server writes to its standard error, kept in a file of bounded size."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

__all__ = ["LARGEST", "OpenLog", "ServerLog"]

OpenLog = Callable[[bool], BinaryIO]
"""Opens the file for appending; with True, after what was in it has been moved aside. Raises OSError."""

LARGEST = 1 << 20
"""Bytes of the file; one older file of this size is kept beside it."""

_A_SECOND = 1 << 18
"""Bytes that are kept of what is written in one second."""


class ServerLog:
    """Takes what a server writes. Raises nothing: a server is not stopped by a full disk."""

    def __init__(self, open_log: OpenLog, redacted: Callable[[str], str]) -> None:
        """`redacted` takes secrets out of a text."""
        self._open = open_log
        self._redacted = redacted
        self._second = 0
        self._kept = 0
        self._dropped = 0
        self._rest = b""
        self.last_line = ""
        """The last line that is not empty, without secrets."""

    def write(self, data: bytes) -> None:
        """Keeps the whole lines of the data, and holds back the last one until it ends."""
        lines, found, rest = (self._rest + data).rpartition(b"\n")
        if len(rest) > LARGEST // 16:  # a line without an end
            lines, found, rest = lines + found + rest, b"", b""
        self._rest = rest
        if lines or found:
            self._keep(lines)

    def end(self) -> None:
        """Keeps what was held back."""
        rest, self._rest = self._rest, b""
        if rest:
            self._keep(rest)

    def _keep(self, lines: bytes) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._kept = second, 0
        if self._kept + len(lines) > _A_SECOND:
            self._dropped += len(lines)
            return
        self._kept += len(lines)
        text = self._redacted(lines.decode("utf-8", "replace"))
        if self._dropped:
            text = f"[{self._dropped} bytes were dropped: too much in one second]\n{text}"
            self._dropped = 0
        self.last_line = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), self.last_line)
        with suppress(OSError):
            self._append(text.encode("utf-8", "replace") + b"\n")

    def _append(self, data: bytes) -> None:
        with self._open(False) as file:
            if file.tell() + len(data) <= LARGEST:
                file.write(data)
                return
        with self._open(True) as file:
            file.write(data[-LARGEST:])

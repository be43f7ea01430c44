"""Where lines go: whether it takes colour, how wide and high it is, which local time it shows."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import Enum
from typing import TextIO

__all__ = ["PLAIN", "WRAP_OFF", "WRAP_ON", "Painter", "Screen", "Style", "terminal_size", "unpainted"]

WRAP_OFF, WRAP_ON = "\x1b[?7l", "\x1b[?7h"
"""Around rows of which one may be wider than we think: the terminal cuts it instead of making two of it."""

_SGR = re.compile(r"\x1b\[[0-9;]*m")


class Style(Enum):
    """The few looks a text may have, as parameters of the terminal's SGR sequence: readable on dark and on light."""

    BOLD = "1"
    DIM = "2"
    RED = "31"
    GREEN = "32"
    ATTENTION = "35"


@dataclass(frozen=True, slots=True)
class Painter:
    """Gives text a look, or leaves it plain. Layout is done before painting."""

    colour: bool = False

    def __call__(self, text: str, *styles: Style) -> str:
        if not self.colour or not styles or not text:
            return text
        return f"\x1b[{';'.join(style.value for style in styles)}m{text}\x1b[0m"


def unpainted(line: str) -> str:
    """A line without the looks that a Painter gave to its parts; what is left has a width."""
    return _SGR.sub("", line)


@dataclass(frozen=True, slots=True)
class Screen:
    """What lines are made for. `width` and `height` in cells, None = without limit (a pipe, a file)."""

    width: int | None = None
    height: int | None = None
    painter: Painter = Painter()
    zone: tzinfo | None = None
    """The time zone of shown times; None = the local one."""

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Screen:
        """The screen behind a stream: of limited size if it is a terminal, coloured if the user wants that.

        COLUMNS and LINES go before the size that the terminal tells.
        """
        if not stream.isatty():
            return cls()
        columns, lines = terminal_size(stream)
        columns, lines = _number(environ.get("COLUMNS")) or columns, _number(environ.get("LINES")) or lines
        dumb = environ.get("TERM", "dumb") == "dumb"
        return cls(columns, lines, Painter(not dumb and not environ.get("NO_COLOR")))

    def room(self, taken: int, least: int = 1) -> int | None:
        """Columns beside so many that are taken, but never fewer than `least`; None = without limit."""
        return None if self.width is None else max(least, self.width - taken)

    def time(self, at: float) -> str:
        """The time of day, `17:03:12`."""
        return self._local(at).strftime("%H:%M:%S")

    def date(self, at: float) -> str:
        """The day, `2026-03-08`."""
        return self._local(at).strftime("%Y-%m-%d")

    def date_time(self, at: float) -> str:
        """Day and time, `2026-03-08 17:03:12`."""
        return self._local(at).strftime("%Y-%m-%d %H:%M:%S")

    def _local(self, at: float) -> datetime:
        return datetime.fromtimestamp(at, UTC).astimezone(self.zone)


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of the terminal as it is now; 80 and 24 of one that does not tell."""
    try:
        columns, lines = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        columns, lines = 0, 0
    return columns or 80, lines or 24


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


PLAIN = Screen()
"""No colour, no limits, local time."""

"""The properties of an output: colour, width, height."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

__all__ = ["PLAIN", "Screen", "terminal_size"]


@dataclass(frozen=True, slots=True)
class Screen:
    """What lines are made for. `width` and `height` in cells, None = without limit (a pipe, a file)."""

    width: int | None = None
    height: int | None = None
    colour: bool = False

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
        return cls(columns, lines, not dumb and not environ.get("NO_COLOR"))


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
"""No colour, no limits."""

"""A text that a person wrote, with its position in a file and the errors found in it so far."""

from __future__ import annotations

import re
from typing import NamedTuple

from agent_md.errors import UsageError

__all__ = ["Mark", "Mistake", "Source", "quoted"]

_MISTAKES_SHOWN = 50
_PASTE_LIMIT = 300
"""Longest line that is given back to be pasted; longer ones are only named."""

_OF_A_SECRET = re.compile(r"\b(api_key|secret|token)\b(?!.*\$\{)")
"""A line with one of these is never given back, since mistakes are also logged; a placeholder is no secret."""
_PLAIN_IN_SINGLE_QUOTES = re.compile(r"[^\x00-\x1f\x7f-\x9f]*[\"\\][^\x00-\x1f\x7f-\x9f]*")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class Mark(NamedTuple):
    """A place in a file; line and column count from 1, columns in characters."""

    line: int
    column: int


class Mistake(NamedTuple):
    """What is wrong at a place, and how to mend it."""

    mark: Mark
    text: str


class Source:
    """The YAML text of one file. `first_line` is the number that its first line has in the file."""

    def __init__(self, file: str, text: str, first_line: int = 1) -> None:
        self.file = file
        self.text = text
        self.first_line = first_line
        self.mistakes: list[Mistake] = []
        self._lines = [line.removesuffix("\r") for line in text.split("\n")]

    def note(self, mark: Mark, text: str) -> None:
        """Notes a mistake; the same one twice is one."""
        mistake = Mistake(mark, text)
        if mistake not in self.mistakes[-_MISTAKES_SHOWN:]:
            self.mistakes.append(mistake)

    @property
    def message(self) -> str:
        """One line a mistake, `file:line:column: text`, in the order of the file; "" when there is none."""
        lines = [f"{self.file}:{m.mark.line}:{m.mark.column}: {m.text}" for m in sorted(self.mistakes)]
        if hidden := len(lines) - _MISTAKES_SHOWN:
            lines[_MISTAKES_SHOWN:] = [f"{self.file}: and {hidden} more"] if hidden > 0 else []
        return "\n".join(lines)

    def raise_mistakes(self, kind: type[UsageError]) -> None:
        """Raises `kind` with all mistakes, if there are any."""
        if self.mistakes:
            raise kind(self.message)

    def line(self, number: int) -> str:
        """The line with this number of the file, without its end; "" past the end."""
        index = number - self.first_line
        return self._lines[index] if 0 <= index < len(self._lines) else ""

    def with_quotes(self, start: Mark, end_column: int | None = None) -> str:
        """How to mend an unquoted value: `write …` with the whole line, the value from `start` in quotes.

        `end_column` is the column after the value; None = it goes to the end of the line.
        """
        line = self.line(start.line)
        end = len(line.rstrip()) if end_column is None else end_column - 1
        value = line[start.column - 1 : end]
        if not value.strip() or len(line) > _PASTE_LIMIT or _OF_A_SECRET.search(line):
            return "put the value in quotes"
        return f"write {(line[: start.column - 1] + quoted(value.rstrip()) + line[end:]).strip()}"


def quoted(text: str) -> str:
    """The text as a quoted YAML scalar on one line."""
    if _PLAIN_IN_SINGLE_QUOTES.fullmatch(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(char) for char in text) + '"'


def _escaped(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    return char if char.isprintable() else f"\\U{ord(char):08X}"

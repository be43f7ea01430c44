"""Reads parts of a text file with a size limit; a last line in brackets says where to continue."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from agent_md.errors import ToolError

__all__ = ["RESULT_LIMIT", "Reading"]

RESULT_LIMIT = 128 * 1024
"""Most bytes of a file in one result."""
_SCAN_LIMIT = 64 * 1024 * 1024
"""Lines are counted up to here; what lies behind is reached by its byte."""
_PIECE = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: the byte it begins at (from 0), what fits into a result, and its size. `ended`: it was read to its end,
    so that `size` is all of it."""

    start: int
    data: bytes
    size: int
    ended: bool

    @property
    def cut(self) -> bool:
        return len(self.data) < self.size


class Reading:
    """Reads at most `count` lines of a file known to the model as `path`. Raises ToolError for what is no UTF-8."""

    def __init__(self, path: str, file: BinaryIO, count: int) -> None:
        self._path = path
        self._file = file
        self._count = count

    def from_line(self, first: int, *, numbered: bool) -> str:
        """From a line on, counted from 1; with `numbered` its number stands before each."""
        texts: list[str] = []
        number, left = 0, RESULT_LIMIT
        for number, line in enumerate(self._lines(), 1):
            if number < first:
                self._check_scanned(line, first)
                continue
            if len(texts) == self._count or (texts and line.size > left):
                return _with_note(texts, f"The file goes on: read further with {_place(number, line.start)}.")
            data = _whole_characters(line.data) if line.cut else line.data
            text = self._text(data, first=number == 1)
            texts.append(f"{number:>6}\t{text}" if numbered else text)
            left -= len(data)
            if line.cut:
                return self._with_cut_line(texts, number, line, len(data))
        if not texts:
            return "[The file is empty.]" if number == 0 else f"[The file has only {_counted(number, 'line')}.]"
        return "".join(texts)

    def from_byte(self, byte: int) -> str:
        """From a byte on, counted from 1; one within a character means the whole character."""
        size = os.fstat(self._file.fileno()).st_size
        if byte > size:
            return f"[The file has only {_counted(size, 'byte')}.]" if size else "[The file is empty.]"
        start = self._start_of_character(byte - 1)
        self._file.seek(start)
        data = self._first_lines(self._file.read(RESULT_LIMIT))
        if start + len(data) < size:
            data = _whole_characters(data)
        texts, end = [self._text(data, first=start == 0)], start + len(data)
        if end >= size:
            return texts[0]
        return _with_note(texts, f"Bytes {start + 1} to {end} of {size} are shown: read further with byte={end + 1}.")

    def _lines(self) -> Iterator[_Line]:
        start = 0
        while piece := self._file.readline(_PIECE):
            data, size = piece, len(piece)
            while not piece.endswith(b"\n") and size <= _SCAN_LIMIT and (piece := self._file.readline(_PIECE)):
                size += len(piece)
                data += piece[: RESULT_LIMIT - len(data)]
            yield _Line(start, data, size, piece.endswith(b"\n") or not piece)
            start += size

    def _check_scanned(self, line: _Line, first: int) -> None:
        if (end := line.start + line.size) > _SCAN_LIMIT:
            raise ToolError(
                f"{self._path} is too large to count lines up to {first}: lines are counted within its first "
                f"{_SCAN_LIMIT} bytes; give a byte instead, such as byte={end + 1}"
            )

    def _with_cut_line(self, texts: list[str], number: int, line: _Line, shown: int) -> str:
        more = "" if line.ended else "more than "
        size = f"[Line {number} has {more}{line.size} bytes; its first {shown} are shown.]"
        after = line.start + line.size
        behind = f", or behind it with {_place(number + 1, after)}" if line.ended and self._file.read(1) else ""
        return _with_note([*texts, f"\n{size}\n"], f"Read on in it with byte={line.start + shown + 1}{behind}.")

    def _first_lines(self, data: bytes) -> bytes:
        end = 0
        for _ in range(self._count):
            if (found := data.find(b"\n", end)) < 0:
                return data
            end = found + 1
        return data[:end]

    def _start_of_character(self, position: int) -> int:
        """The start of the character that the byte belongs to."""
        begin = max(position - 3, 0)
        self._file.seek(begin)
        around = self._file.read(position - begin + 1)
        back = next((back for back, byte in enumerate(reversed(around)) if not _continues(byte)), 0)
        return position - back

    def _text(self, data: bytes, *, first: bool) -> str:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise self._not_text() from None
        if "\0" in text:
            raise self._not_text()
        return text.removeprefix("\ufeff") if first else text

    def _not_text(self) -> ToolError:
        return ToolError(f"{self._path} is no text in UTF-8; only text files can be read")


def _with_note(texts: list[str], note: str) -> str:
    text = "".join(texts)
    end = "" if text.endswith("\n") else "\n"
    return f"{text}{end}[{note}]"


def _place(line: int, start: int) -> str:
    """How to read on at a line that begins at this byte, counted from 0."""
    return f"offset={line}" if start <= _SCAN_LIMIT else f"byte={start + 1}"


def _continues(byte: int) -> bool:
    return 0x80 <= byte < 0xC0


def _whole_characters(data: bytes) -> bytes:
    """The data without the beginning of a character at its end."""
    back = next((back for back, byte in enumerate(reversed(data[-4:]), 1) if not _continues(byte)), 0)
    if back == 0 or data[-back] < 0x80:
        return data
    length = 2 if data[-back] < 0xE0 else 3 if data[-back] < 0xF0 else 4
    return data[:-back] if back < length else data


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

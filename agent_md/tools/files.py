"""What the file tools share, and `file_read`."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, BinaryIO

from agent_md.errors import ToolError
from agent_md.executions.model import CallEffect, Preview
from agent_md.tools.arguments import action_digest, check_arguments, object_schema
from agent_md.tools.base import Plan, Settled, SettledState, ToolOptions
from agent_md.tools.places import open_place
from agent_md.tools.sandbox import Sandbox

__all__ = ["PATH", "FileRead", "FileTool"]

PATH: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "description": "Path relative to the workspace, or ALIAS/… for a declared path.",
}

_LINES = 2000
_RESULT_LIMIT = 128 * 1024
_SCAN_LIMIT = 64 * 1024 * 1024
_PIECE = 64 * 1024


class FileTool:
    """A tool on files of one sandbox. Subclasses give `name`, `description`, `parameters`, `plan` and `run`."""

    name = ""
    description = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 - replaced by each subclass, never changed
    options = ToolOptions()

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return check_arguments(self.name, self.parameters, args)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)


class FileRead(FileTool):
    """Gives text by lines. The digest of its plan covers no content: reading what grew meanwhile is the same action."""

    name = "file_read"
    description = "Reads a text file, or some lines of it. Long files come in parts: read on with offset."
    parameters = object_schema(
        {"path": PATH},
        {
            "offset": {"type": "integer", "minimum": 0, "description": "First line to read, counted from 1."},
            "limit": {"type": "integer", "minimum": 1, "description": f"Lines to read; {_LINES} if not given."},
            "with_line_numbers": {"type": "boolean", "description": "Puts the number before each line."},
        },
    )
    options = ToolOptions(read_only=True, idempotent=True)

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        return (self._sandbox.resolve(args["path"], write=False).subject,)

    def plan(self, args: dict[str, Any]) -> Plan:
        resolved = self._sandbox.resolve(args["path"], write=False)
        with open_place(self._sandbox, resolved) as place:
            size = place.existing().st_size
        return Plan(
            digest=action_digest(self.name, args, str(resolved.path)),
            preview=Preview(resolved=str(resolved.path), size=size),
        )

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        first, count = max(args.get("offset", 1), 1), args.get("limit", _LINES)
        numbered = args.get("with_line_numbers", False)
        with open_place(self._sandbox, self._sandbox.resolve(args["path"], write=False)) as place, place.open() as file:
            return _Reading(place.shown, first, count, numbered).of(file)


class _Reading:
    """One reading of some lines, of bounded size."""

    def __init__(self, path: str, first: int, count: int, numbered: bool) -> None:
        self._path = path
        self._first = first
        self._count = count
        self._numbered = numbered
        self._left = _RESULT_LIMIT

    def of(self, file: BinaryIO) -> str:
        """The text, with a last line in brackets if there is more or nothing."""
        texts: list[str] = []
        number = 0
        for number, (line, size) in enumerate(_lines(file), 1):
            if number < self._first:
                self._check_scanned(file)
                continue
            if len(texts) == self._count or (texts and len(line) > self._left):
                return self._with_rest(texts, number)
            texts.append(self._line(number, line))
            self._left -= len(line)
            if size > len(line):
                texts.append(f"\n[Line {number} has {size} bytes; its first {len(line)} are shown.]\n")
                return self._with_rest(texts, number + 1)
        if not texts:
            return "[The file is empty.]" if number == 0 else f"[The file has only {number} lines.]"
        return "".join(texts)

    def _line(self, number: int, line: bytes) -> str:
        decoder = codecs.getincrementaldecoder("utf-8")()
        complete = len(line) < _RESULT_LIMIT
        try:
            text = decoder.decode(line, final=complete)
        except UnicodeDecodeError:
            raise self._not_text() from None
        if "\0" in text:
            raise self._not_text()
        if number == 1:
            text = text.removeprefix("\ufeff")
        return f"{number:>6}\t{text}" if self._numbered else text

    def _with_rest(self, texts: list[str], following: int) -> str:
        text = "".join(texts)
        end = "" if text.endswith("\n") else "\n"
        return f"{text}{end}[The file may go on: read further with offset={following}.]"

    def _check_scanned(self, file: BinaryIO) -> None:
        if file.tell() > _SCAN_LIMIT:
            raise ToolError(f"{self._path} is too large: line {self._first} lies beyond its first {_SCAN_LIMIT} bytes")

    def _not_text(self) -> ToolError:
        return ToolError(f"{self._path} is no text in UTF-8; only text files can be read")


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Each line, cut to what a result can hold, and its real size in bytes."""
    while piece := file.readline(_PIECE):
        line, size = piece, len(piece)
        while not piece.endswith(b"\n") and (piece := file.readline(_PIECE)):
            size += len(piece)
            line += piece[: _RESULT_LIMIT - len(line)]
        yield line, size

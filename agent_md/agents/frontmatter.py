"""Splits an agent file into its settings, as positioned YAML, and its body, byte for byte."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_md.agents.files import Unreadable, decode
from agent_md.agents.source import Source
from agent_md.agents.yaml_positions import MAX_BYTES, Mapping, load_mapping
from agent_md.errors import AgentFileInvalid

__all__ = ["Document", "read_document"]

_BLANK_LINES = re.compile(r"(?:[ \t]*\r?\n)*")
_OPENING = re.compile(r"---[ \t]*(?:\r?\n|\r?\Z)")
_CLOSING = re.compile(r"\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\r?\Z)")
"""Begins with the end of the line before: a search for that is fast, also in a text of megabytes."""


@dataclass(frozen=True, slots=True)
class Document:
    """The parts of an agent file. `settings` is None when they cannot be read; `source` then has the mistake."""

    source: Source
    settings: Mapping | None
    body: str


def read_document(data: bytes, file: str) -> Document:
    """Cuts the file at the first line after the opening one that is exactly `---` or `...`.

    What is wrong with the YAML is noted in the source. Raises AgentFileInvalid for a file that cannot even be cut.
    `file` is how messages name it.
    """
    try:
        text = decode(data)
    except Unreadable as error:
        raise AgentFileInvalid(f"{file}: the file {error}") from None
    start = _end_of_match(_BLANK_LINES, text, 0) or 0
    opening_line = text.count("\n", 0, start) + 1
    opened = _end_of_match(_OPENING, text, start)
    if opened is None:
        raise AgentFileInvalid(f"{file}:{opening_line}:1: {_not_opened(text, start)}")
    closing = _CLOSING.search(text, opened - 1)
    end = len(text) if closing is None else closing.start() + 1
    source = Source(file, text[opened:end], opening_line + 1)
    if closing is None:
        raise AgentFileInvalid(f"{file}:{opening_line}:1: {_not_closed(source.text)}")
    return Document(source, load_mapping(source), text[closing.end() :])


def _end_of_match(pattern: re.Pattern[str], text: str, position: int) -> int | None:
    found = pattern.match(text, position)
    return found.end() if found else None


def _not_opened(text: str, start: int) -> str:
    line = text[start:].partition("\n")[0]
    if re.match(r"---[ \t]*\r", line):
        return "the lines end with CR only; save the file with LF or CRLF line ends"
    shown = line.strip() if len(line) <= 60 else line[:59].strip() + "…"
    read = f'read "{shown}"' if shown else "the file is empty"
    return f"the first line must be exactly --- (the settings follow it, up to a second ---), {read}"


def _not_closed(rest: str) -> str:
    if len(rest) > MAX_BYTES:
        return f"no line that is exactly --- closes the settings within {MAX_BYTES // 1024} KiB; add it"
    return "the settings that open here are never closed; add a line that is exactly --- after them"

"""A page of the documents, walked from its top to its bottom in an empty folder: its files are written, its commands typed.

- A block of `markdown` is an agent file, and a block that begins with `# a/path.ext` is that file.
- In a block of `console`, `$ ` is typed (a line that ends in a backslash goes on in the next one). What stands below a
  command is what it prints, times, durations, ids and names of this machine apart. JSON may be folded.
- A block of `sh` is typed line by line.
- A block without a language, or of `json`, right below one of `console` is what its last command prints.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.documents import Block, Document
from tests.support.examples import BEFORE, UNTIL, left_out
from tests.support.shell import Shell

__all__ = ["Said", "Typed", "same", "typed", "walk"]

_DURATION = r"\b\d+(\.\d+)? (ms|s|min|h)( \d+ (s|min))?\b"
_MASKS = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "UUID"),
    (r"\b(evt_|msg_)?[0-9a-f]{16,}\b", "HEX"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\bnext at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", "next at TIME"),
    (r"\b\d\d:\d\d:\d\d\b", "TIME"),
    (r"\b\d{4}-\d\d-\d\d TIME", "TIME"),
    (r"── \d{4}-\d\d-\d\d ──", "── DATE ──"),
    (rf" \(after {_DURATION}\)| and {_DURATION} of waiting for answers", ""),
    (_DURATION, "DURATION"),
    (r"\bcli:[\w.-]+", "cli:LOGIN"),
    (r"─{9,}", "─────────"),  # as wide as a table, which may have a name of this machine
)
_NUMBERS = ("pid", "uptime_seconds", "duration_ms")
"""Fields of JSON whose numbers are never the same."""


@dataclass(frozen=True)
class Typed:
    """A command, where it stands, and what the page says that it prints; "" = nothing is said."""

    block: Block
    command: str
    printed: str = ""


@dataclass(frozen=True)
class Said:
    """What became of a command."""

    typed: Typed
    code: int
    output: str


def typed(block: Block) -> list[Typed]:
    """The commands of one block."""
    commands: list[Typed] = []
    for line in block.text.splitlines():
        if block.language == "sh" or line.startswith("$ "):
            commands.append(Typed(block, line.removeprefix("$ ")))
        elif not commands:
            raise AssertionError(f"{block}: nothing was typed above {line!r}")
        elif commands[-1].command.endswith("\\"):
            commands[-1] = replace(commands[-1], command=f"{commands[-1].command}\n{line}")
        else:
            commands[-1] = replace(commands[-1], printed=f"{commands[-1].printed}{line}\n")
    return commands


def walk(document: Document, shell: Shell, workspace: Path, kept: Path) -> list[Said]:
    """Walks the page, those blocks apart that are not to be walked. `kept` is an empty folder of the caller."""
    script = [BEFORE.get(document.name, "")]
    commands: list[Typed] = []
    for block in _blocks(document, left_out(document.name)):
        if isinstance(block, Typed):
            output = shlex.quote(str(kept / f"{len(commands)}.out"))
            code = shlex.quote(str(kept / f"{len(commands)}.code"))
            script.append(f"{{\n{block.command}\n}} >{output} 2>&1\necho $? >{code}")
            if condition := UNTIL.get((document.name, block.command)):
                script.append(f"for turn in {{1..400}}; do {condition} && break; sleep 0.05; done")
            commands.append(block)
        else:
            name, text = block
            copy = kept / f"{len(script)}.file"
            copy.write_text(text, encoding="utf-8")
            script.append(
                f"mkdir -p {shlex.quote(str(Path(name).parent))}; cp {shlex.quote(str(copy))} {shlex.quote(name)}"
            )
    shell("\n".join(script), workspace)
    return [
        Said(command, int((kept / f"{number}.code").read_text()), (kept / f"{number}.out").read_text(encoding="utf-8"))
        for number, command in enumerate(commands)
    ]


def _blocks(document: Document, left_out: frozenset[str]) -> Iterator[Typed | tuple[str, str]]:
    last: Typed | None = None
    for block in document.blocks():
        if block.first_line in left_out:
            continue
        if block.language in ("", "json") and last is not None and not last.printed:
            last = replace(last, printed=block.text)
            continue
        if last is not None:
            yield last
            last = None
        if block.file is not None:
            yield block.file, block.text
        elif block.language in ("console", "sh"):
            *others, last = typed(block)
            yield from others
    if last is not None:
        yield last


def same(shown: str, output: str, masks: Mapping[str, str]) -> bool:
    """Whether a page shows what a command printed. `masks` are names of this machine, and what a page has for them."""
    for actual, name in masks.items():
        output = output.replace(actual, name)
    try:
        return bool(_value(json.loads(shown)) == _value(json.loads(output)))
    except ValueError:
        return _lines(shown) == _lines(output)


def _lines(text: str) -> list[str]:
    return [_masked(line).rstrip() for line in text.strip().splitlines()]


def _masked(text: str) -> str:
    for pattern, name in _MASKS:
        text = re.sub(pattern, name, text)
    return text


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "NUMBER" if key in _NUMBERS and inner is not None else _value(inner) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_value(inner) for inner in value]
    return _masked(value) if isinstance(value, str) else value

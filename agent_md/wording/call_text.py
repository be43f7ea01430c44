"""A tool call on one line. Arguments of many lines are replaced by their size, to be shown separately."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agent_md.executions.requests import Preview
from agent_md.visible_text import counted, one_line

__all__ = ["LongText", "call_line", "long_texts", "shown_json", "sized_json"]

_LINES = 5
_CHARACTERS = 500
"""A text with more lines, or more characters, is long."""
_PLAIN = re.compile(r"[\w./{}~@+-]+", re.ASCII)
"""A path that needs no quotes: it cannot be taken for anything of ours."""


@dataclass(frozen=True, slots=True)
class LongText:
    """A long text in the arguments of a call; `name` says where: `content`, `files[0].body`."""

    name: str
    text: str


def shown_json(value: Any) -> str:
    """A JSON value on one line as people read it."""
    return one_line(json.dumps(value, ensure_ascii=False))


def call_line(tool: str, args: Mapping[str, Any], preview: Preview | None = None, *, sign: str = " ") -> str:
    """`file_delete {"path": "a.txt"}` with `sign` between; with long texts `file_write code.py (80 lines, new)` or
    `post {"to": "ann", "text": (12 lines)}`."""
    longs = long_texts(args)
    if not longs:
        return f"{one_line(tool)}{sign}{shown_json(args)}"
    path = args.get("path")
    if isinstance(path, str) and {each.name for each in longs} == args.keys() - {"path"}:
        shown = path if _PLAIN.fullmatch(path) else shown_json(path)
        sizes = [_size(longs[0].text)] if len(longs) == 1 else [f"{each.name} {_size(each.text)}" for each in longs]
        return f"{one_line(tool)} {shown} ({', '.join([*sizes, *_news(preview)])})"
    return f"{one_line(tool)}{sign}{one_line(sized_json(args))}"


def sized_json(value: Any) -> str:
    """JSON on one line; long texts in it stand as their size, without quotes."""
    match value:
        case str(text) if _is_long(text):
            return f"({_size(text)})"
        case dict(entries):
            parts = (f"{json.dumps(key, ensure_ascii=False)}: {sized_json(item)}" for key, item in entries.items())
            return f"{{{', '.join(parts)}}}"
        case list(items):
            return f"[{', '.join(map(sized_json, items))}]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def long_texts(args: Mapping[str, Any]) -> list[LongText]:
    """The long texts in the arguments, in their order."""
    return [found for name, value in args.items() for found in _found(name, value)]


def _found(name: str, value: Any) -> Iterator[LongText]:
    match value:
        case str(text) if _is_long(text):
            yield LongText(name, text)
        case dict(entries):
            for key, item in entries.items():
                yield from _found(f"{name}.{key}", item)
        case list(items):
            for number, item in enumerate(items):
                yield from _found(f"{name}[{number}]", item)


def _is_long(text: str) -> bool:
    return len(text) > _CHARACTERS or _lines(text) > _LINES


def _lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _size(text: str) -> str:
    lines = _lines(text)
    return counted(lines, "line") if lines > 1 else counted(len(text), "character")


def _news(preview: Preview | None) -> list[str]:
    makes_file = preview is not None and (preview.diff or "").startswith("--- /dev/null\n")
    return ["new"] if makes_file else []

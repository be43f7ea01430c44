"""Parses typed answers to responses. Every parser raises AnswerRefused with the expected form."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from agent_md.errors import AnswerRefused
from agent_md.executions.json_values import parse_strictly

__all__ = ["json_value", "parse_choice", "parse_confirm", "parse_json", "parse_selection", "parse_text"]

_NUMBERS = re.compile(r"[0-9]+(?:[\s,]+[0-9]+)+")
_NO = re.compile(r"(?:n|no)(?:[,:]?\s+(?P<reason>.*))?", re.IGNORECASE | re.DOTALL)
_LONGEST_NAMED = 80

_EXPECTED = {
    "Expecting value": "a value was expected",
    "Expecting property name enclosed in double quotes": "a name in double quotes was expected",
    "Expecting ',' delimiter": "a comma was expected",
    "Expecting ':' delimiter": "a colon was expected",
    "Extra data": "the value has ended before",
    "Unterminated string starting at": "a text begins that does not end",
}
"""What Python's parser says, in plain words."""


def parse_confirm(line: str) -> dict[str, Any]:
    """`y` or `yes` approves; `n`, `no` and an empty line deny, with a reason if one follows: `no, it is needed`.

    Of several lines only a reason is taken: whatever else was pasted decides nothing.
    """
    answer = line.strip()
    denied = _NO.fullmatch(answer)
    if "\n" not in line and answer.lower() in ("y", "yes"):
        return {"approved": True}
    if "\n" not in line and not answer:
        return {"approved": False}
    if denied is None or ("\n" in line and not denied["reason"]):
        raise AnswerRefused("answer y or n; `n REASON` tells the agent why")
    return {"approved": False} | ({"reason": denied["reason"]} if denied["reason"] else {})


def parse_text(line: str) -> dict[str, Any]:
    """Any text, also an empty one, exactly as typed."""
    return {"text": line}


def parse_choice(line: str, options: Sequence[str], *, multi: bool) -> dict[str, Any]:
    """The numbers of options, or their exact texts; with `multi` several, as `parse_selection` takes them."""
    return {"selected": [options[at] for at in parse_selection(line, options, multi=multi)]}


def parse_selection(line: str, options: Sequence[str], *, multi: bool) -> list[int]:
    """The indices of the selected options, each once, in the order of the options.

    With `multi` several, separated by commas; numbers also by blanks: `1,3` or `1 3`. A number in range is always the
    number of an option, also where an option's own text is a number.
    """
    answer = line.strip()
    if "\n" in line and line not in options:
        raise AnswerRefused(f"{_named(line)} is no option; type a number from 1 to {len(options)}")
    parts = [answer]
    if multi and answer not in options:
        separator = r"[\s,]+" if _NUMBERS.fullmatch(answer) else ","
        parts = [part.strip() for part in re.split(separator, answer)]
    return sorted({_option(part, options) for part in parts})


def parse_json(line: str) -> Any:
    """Any JSON value."""
    try:
        return json_value(line)
    except ValueError as error:
        raise AnswerRefused(f'not JSON: {error}; write it such as "text", 5 or {{"name": "text"}}') from None


def json_value(text: str) -> Any:
    """The value of a JSON text. Raises ValueError that says, in words for everybody, where it is none."""
    try:
        return parse_strictly(text)
    except json.JSONDecodeError as error:
        what = _EXPECTED.get(error.msg, error.msg[:1].lower() + error.msg[1:])
        raise ValueError(f"{what} at character {error.pos + 1}") from None


def _option(part: str, options: Sequence[str]) -> int:
    if part.isascii() and part.isdigit() and len(part) < 6 and 1 <= int(part) <= len(options):
        return int(part) - 1
    if part in options:
        return options.index(part)
    raise AnswerRefused(f"{_named(part)} is no option; type a number from 1 to {len(options)}")


def _named(part: str) -> str:
    """What was typed, as a message names it: of a long paste the beginning."""
    if len(part) <= _LONGEST_NAMED:
        return part or "an empty line"
    lines = len(part.splitlines())
    size = f"{lines} lines" if lines > 1 else f"{len(part)} characters"
    return f"{part[:_LONGEST_NAMED].splitlines()[0]}… ({size})"

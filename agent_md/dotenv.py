"""The `.env` file: lines `NAME=value`, nothing else."""

from __future__ import annotations

import re

from agent_md.errors import ConfigInvalid

__all__ = ["parse_dotenv"]

_LINE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?P<value>.*)")
_SINGLE = re.compile(r"'(?P<text>[^']*)'[ \t]*(?:#.*)?")
_DOUBLE = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"[ \t]*(?:#.*)?')
_COMMENT = re.compile(r"(?:^|[ \t]+)#.*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def parse_dotenv(text: str, file: str) -> dict[str, str]:
    """The variables of the text. Raises ConfigInvalid naming `file` and the line at fault, never a value.

    A value may be bare (a ` #` after it starts a comment), in single quotes (kept as it is) or in double quotes
    (backslash escapes). Variables in values are not replaced, and a value ends with its line.
    """
    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if not found:
            raise ConfigInvalid(f"{file}:{number}: this line is not NAME=value; mend it, or start it with #")
        name = found["name"]
        if name in values:
            raise ConfigInvalid(
                f"{file}:{number}: {name} is given twice, in line {lines[name]} and in line {number}; keep one"
            )
        value = _value(found["value"])
        if value is None:
            raise ConfigInvalid(f"{file}:{number}: the quotes of {name} are not closed in this line; close them")
        values[name], lines[name] = value, number
    return values


def _value(text: str) -> str | None:
    if text.startswith("'"):
        found = _SINGLE.fullmatch(text)
        return found["text"] if found else None
    if text.startswith('"'):
        found = _DOUBLE.fullmatch(text)
        return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), found["text"]) if found else None
    return _COMMENT.sub("", text).rstrip()

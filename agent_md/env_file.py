"""Reads `.env` with python-dotenv, without expanding variables; lines that it would skip are errors."""

from __future__ import annotations

import io
import re

from agent_md.errors import ConfigInvalid

__all__ = ["parse_env_file"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTES_OPEN = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*['\"]")


def parse_env_file(text: str, file: str) -> dict[str, str]:
    """The variables of the text. Raises ConfigInvalid naming `file` and the line at fault, never a value.

    A value may be bare (a ` #` after it starts a comment), in single quotes (kept but for `\\'` and `\\\\`) or in double
    quotes (backslash escapes); quoted ones may have several lines.
    """
    from dotenv.parser import parse_stream

    values: dict[str, str] = {}
    lines: dict[str, int] = {}
    for found in parse_stream(io.StringIO(text, newline="")):
        written = found.original.string
        line = found.original.line + written[: len(written) - len(written.lstrip())].count("\n")
        if found.error and (quoted := _QUOTES_OPEN.match(written)):
            raise ConfigInvalid(f"{file}:{line}: the quotes of {quoted['name']} are not closed; close them")
        if found.key is None and not found.error:
            continue  # a comment or an empty line
        if found.value is None or found.key is None or not _NAME.fullmatch(found.key):
            raise ConfigInvalid(f"{file}:{line}: this line is not NAME=value; correct it, or start it with #")
        if found.key in values:
            raise ConfigInvalid(
                f"{file}:{line}: {found.key} is given twice, in line {lines[found.key]} and in line {line}; keep one"
            )
        values[found.key], lines[found.key] = found.value, line
    return values

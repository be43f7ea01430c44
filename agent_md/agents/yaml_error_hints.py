"""Explains syntax errors of YAML, and suggests the line to paste instead."""

from __future__ import annotations

import re
from typing import Any

import yaml

from agent_md.agents.source import Mark, Source

__all__ = ["explain"]

_KEY_AND_VALUE = re.compile(r"""(?P<head>\s*(?:-\s+)*[^\s#:"'\[\]{}-][^:]*:\s+)(?P<value>\S.*)""")
_VARIABLE = re.compile(r"\$\{[^\s{}]*\}")


def explain(error: yaml.MarkedYAMLError, source: Source) -> tuple[Mark, str]:
    """The place of the error, and a text that says what was read there and how to mend it."""
    yaml_mark: Any = error.problem_mark or error.context_mark
    mark = Mark(yaml_mark.line + source.first_line, yaml_mark.column + 1)
    problem = error.problem or "YAML cannot read this"
    line = source.line(mark.line)
    char = line[mark.column - 1 : mark.column]
    if "\t" in line[: mark.column] and (char == "\t" or not line[: mark.column].strip()):
        return mark, f"there is a tab in line {mark.line}, column {line.index(chr(9)) + 1}; use spaces"
    if problem == "mapping values are not allowed here":
        return mark, _colon(source, mark, line)
    if problem.startswith("found unknown escape character"):
        return mark, f"{problem}; put the value in single quotes, or write each \\ twice"
    if problem.startswith("found unexpected end of stream"):
        opened: Any = error.context_mark or yaml_mark
        start = Mark(opened.line + source.first_line, opened.column + 1)
        return start, "the quote that opens here is never closed; close it"
    if (found := _VARIABLE.match(line, max(mark.column - 2, 0))) is not None:
        start = Mark(mark.line, found.start() + 1)
        return start, f"{found.group()} needs quotes inside braces; {source.with_quotes(start, found.end() + 1)}"
    if char and char in "%@`|>?-,":
        return mark, f"an unquoted value cannot start with {char} here; {_quoted_value(source, mark, line)}"
    return mark, f"YAML cannot read this: {problem}{_quoted_hint(source, mark, line)}"


def _colon(source: Source, mark: Mark, line: str) -> str:
    if ":" in line[: mark.column - 1]:
        return f"a colon followed by a blank ends a key; {_quoted_value(source, mark, line)}"
    return (
        f"the key in line {mark.line} is inside what stands above it; put the value above in quotes, "
        "give it the colon it lacks, or indent this key like the others"
    )


def _quoted_value(source: Source, mark: Mark, line: str) -> str:
    found = _KEY_AND_VALUE.match(line)
    if found and found["value"][0] in "[{":
        item = re.match(r"[^,\[\]{}]*", line[mark.column - 1 :])
        return source.with_quotes(mark, mark.column + len(item.group().rstrip()) if item else None)
    if found and found.start("value") < mark.column:
        value = re.sub(r"\s+#.*$", "", found["value"])
        start = Mark(mark.line, found.start("value") + 1)
        return source.with_quotes(start, start.column + len(value))
    return source.with_quotes(mark)


def _quoted_hint(source: Source, mark: Mark, line: str) -> str:
    found = _KEY_AND_VALUE.match(line)
    if found and found.start("value") < mark.column and found["value"][0] not in "\"'[{|>":
        return f"; {_quoted_value(source, mark, line)}"
    return "; check quotes, brackets and indentation"

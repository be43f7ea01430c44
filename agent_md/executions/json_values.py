"""Checks JSON values that are stored: finite numbers, limited nesting."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

__all__ = ["MAX_DEPTH", "PAYLOAD_LIMIT", "brief", "has_no_json_number", "is_too_deep", "json_size", "parse_strictly"]

MAX_DEPTH = 64
"""How deep lists and objects may be nested in what is asked, answered or given to a tool."""

PAYLOAD_LIMIT = 16 * 1024
"""Largest payload of a custom request, and of structured questions, in bytes as `json_size` counts them."""

_BRIEF = 80


def parse_strictly(text: str, *, line_breaks: bool = False) -> Any:
    """The value of a JSON text, which may have bare `line_breaks` in its strings if allowed.

    Raises ValueError for invalid JSON, for numbers outside the range of JSON, and for repeated keys, since it is not
    clear which of two values is meant."""
    readers: dict[str, Any] = {"parse_constant": _no_constant, "parse_float": _finite, "object_pairs_hook": _object}
    try:
        return json.loads(text, strict=not line_breaks, **readers)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def json_size(value: Any) -> int:
    """The bytes of a JSON value as it is stored: UTF-8, without blanks between its parts.

    Raises ValueError for a text with half a surrogate pair.
    """
    try:
        return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    except UnicodeEncodeError:
        raise ValueError("it has half a surrogate pair, which is no text") from None


def brief(value: Any) -> str:
    """The value as Python writes it, cut to what an error message bears."""
    text = repr(value)
    return text if len(text) <= _BRIEF else text[: _BRIEF - 3] + "…"


def is_too_deep(value: Any) -> bool:
    """Whether lists and objects are nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = {id(item): item for item in level if isinstance(item, dict | list | tuple)}  # each once
        if not containers:
            return False
        level = [inner for container in containers.values() for inner in _inner(container)]
    return True


def has_no_json_number(value: Any) -> bool:
    """Whether there is a NaN or an infinity anywhere in a value."""
    level = [value]
    while level:
        if any(isinstance(item, float) and not math.isfinite(item) for item in level):
            return True
        level = [inner for item in level for inner in _inner(item)]
    return False


def _inner(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {brief(key)} comes twice in one object")
        found[key] = value
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is too large a number")
    return number


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")

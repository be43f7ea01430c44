"""Converts results of tools to text; never fails."""

from __future__ import annotations

import base64
import dataclasses
import enum
import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["one_line", "result_text", "storable"]

_DEPTH = 50
_BITS = 10_000
"""Python refuses to write much longer numbers as decimals."""


def result_text(value: Any) -> str:
    """A text as it is; anything else as JSON, with a text for what JSON does not know."""
    plain = _plain(value, 0)
    return storable(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def storable(text: str) -> str:
    """The text with a replacement sign for halves of surrogate pairs, which no database takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def one_line(text: str, limit: int) -> str:
    """The text on one line, with a sign at the end if it was cut to `limit` characters: between words, since a part of a
    secret would not be known as one."""
    line = " ".join(storable(text).split())
    return line if len(line) <= limit else f"{line[:limit].rpartition(' ')[0]}…"


def _plain(value: Any, depth: int) -> Any:
    """`value` in the types of JSON."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, bool | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int | float):
        return _number(value)
    if depth >= _DEPTH:
        return _described(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bytes_text(bytes(value))
    try:
        return _composed(value, depth + 1)
    except Exception:  # a value with tricks of its own must not fail the call that gave it
        return _described(value)


def _composed(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        return {_key(key): _plain(item, depth) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, depth) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, depth) for item in value), key=repr)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), depth) for field in dataclasses.fields(value)}
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return _plain(dump(mode="json"), depth)
    if callable(iso := getattr(value, "isoformat", None)) and not isinstance(value, type):
        return str(iso())
    return _described(value)


def _number(value: float) -> Any:
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _BITS else hex(value)
    return float(value) if math.isfinite(value) else str(float(value))


def _key(key: Any) -> str:
    return key if isinstance(key, str) else _described(key)


def _bytes_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"base64:{base64.b64encode(data).decode()}"


def _described(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # the same
        return f"<{type(value).__name__}>"

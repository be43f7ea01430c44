"""Masks secrets in texts: replaces each by its name, as `[secret GITHUB_TOKEN]`."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

__all__ = ["SHORTEST_SECRET", "Redactor", "TextStream", "is_secret_name"]

T = TypeVar("T")

SHORTEST_SECRET = 8
"""A shorter value is not looked for: its letters are in any text."""
_SHORTEST_LINE = 16
_SHORTEST_ENCODED = 8
_ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
_KEPT_BY_SCRIPTS = "!*'()"
_KEPT_IN_ADDRESSES = ";,/?:@&=+$!*'()#"
"""What JavaScript's `encodeURIComponent` and `encodeURI` leave as it is, beside letters, digits and -_.~"""
_MARK = re.compile(r"\[secret (\w+)\]")


def is_secret_name(name: str) -> bool:
    """Whether a variable holds a secret, judged by its name."""
    return name.upper().endswith(_ENDINGS)


class Redactor:
    """Replaces the values of `secrets`, by name, as they are and in common encodings: JSON, URL, HTML, hexadecimal, and
    Base64 at any position of what was encoded. Of a value with several lines, long lines are secrets too."""

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        known = {name: value for name, value in (secrets or {}).items() if len(value) >= SHORTEST_SECRET}
        self._names = frozenset(known)
        self._marks: dict[str, str] = {}
        for name, value in known.items():
            for form in _forms(value):
                self._marks.setdefault(form, f"[secret {name}]")

    def text(self, text: str) -> str:
        """The text without secrets; the same object if there were none."""
        found = self.pattern_of(text)
        return text if found is None else found.sub(lambda secret: self._marks[secret.group()], text)

    def pattern_of(self, text: str) -> re.Pattern[str] | None:
        """What finds the secrets of a text, the longest of each place; None if there are none."""
        there = sorted((form for form in self._marks if form in text), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, there))) if there else None

    def value(self, value: T) -> T:
        """A JSON value with all its texts, and the names in it, without secrets."""
        if not self._marks:
            return value
        plain: Any = value
        if isinstance(plain, str):
            plain = self.text(plain)
        elif isinstance(plain, Mapping):
            plain = {self.value(name): self.value(item) for name, item in plain.items()}
        elif isinstance(plain, list | tuple):
            plain = type(plain)(self.value(item) for item in plain)
        return plain  # type: ignore[no-any-return]

    def marked(self, value: Any) -> str | None:
        """The name of a secret for which a mark stands in a JSON value; None if there is none."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return next((name for name in _MARK.findall(text) if name in self._names), None)

    def stream(self) -> TextStream:
        """The same for a text that comes in pieces."""
        return TextStream(self, self._beginnings, max(map(len, self._marks), default=1) - 1)

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(form[:length] for form in self._marks for length in range(1, len(form)))


class TextStream:
    """A text without secrets, piece by piece, however they are split."""

    def __init__(self, redactor: Redactor, beginnings: frozenset[str], longest: int) -> None:
        self._redactor = redactor
        self._beginnings = beginnings
        self._longest = longest
        self._kept = ""

    def feed(self, piece: str) -> str:
        """What can be given out now: all but what may be the beginning of a secret."""
        text = self._kept + piece
        lengths = range(min(self._longest, len(text)), 0, -1)
        end = len(text) - next((length for length in lengths if text[-length:] in self._beginnings), 0)
        if (pattern := self._redactor.pattern_of(text)) is not None:
            for secret in pattern.finditer(text):
                end = secret.start() if secret.start() < end < secret.end() else end
        self._kept = text[end:]
        return self._redactor.text(text[:end])

    def rest(self) -> str:
        """What was kept back, at the end of the text."""
        rest, self._kept = self._kept, ""
        return self._redactor.text(rest)


def _forms(value: str) -> Iterator[str]:
    """What to look for, each at least as long as a secret."""
    yield from _spellings(value)
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _SHORTEST_LINE)
    data = value.encode("utf-8", "surrogateescape")
    for form in dict.fromkeys((data, quote(data, safe="").encode())):  # also of what was sent in an address
        yield from _of_bytes(form)


def _of_bytes(data: bytes) -> Iterator[str]:
    yield data.hex()
    yield data.hex().upper()
    for skipped in range(3):
        for encoded in _in_base64(data, skipped):
            if len(encoded) >= _SHORTEST_ENCODED:
                yield encoded


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield html.escape(value)
    encodable = value.encode("utf-8", "surrogateescape")
    once = [quote(encodable, safe=kept) for kept in ("", "/", _KEPT_BY_SCRIPTS, _KEPT_IN_ADDRESSES)]
    for quoted in (*once, quote_plus(encodable), quote(once[0], safe="")):
        yield quoted
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found.group().lower(), quoted)


def _in_base64(data: bytes, skipped: int) -> Iterator[str]:
    """The characters that stand for nothing but `data`, where `skipped` bytes of a group of three come before it."""
    whole = base64.b64encode(b"\0" * skipped + data).decode().rstrip("=")
    first = -(-skipped * 8 // 6)
    last = (skipped + len(data)) * 8 // 6
    inner = whole[first:last]
    yield inner
    yield inner.translate(str.maketrans("+/", "-_"))

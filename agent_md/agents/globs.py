"""The globs of rules: `*` stands for any text, `/` and line ends included, `?` for one character, everything else for
itself; case counts."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["glob_fits", "globs_meet", "is_glob"]

_MOST_STEPS = 250_000


def is_glob(text: str) -> bool:
    """Whether the text has a wildcard."""
    return "*" in text or "?" in text


def glob_fits(pattern: str, text: str) -> bool:
    """Whether the whole text fits. Takes time in proportion to the text for each `*`, never more."""
    text = unicodedata.normalize("NFC", text)
    first, *rest = unicodedata.normalize("NFC", pattern).split("*")
    if not rest:
        return _piece(first).fullmatch(text) is not None
    if not _piece(first).match(text):
        return False
    position = len(first)
    *middle, last = rest
    for piece in middle:
        found = _piece(piece).search(text, position)
        if found is None:
            return False
        position = found.end()
    tail = len(text) - len(last)
    return tail >= position and _piece(last).fullmatch(text, tail) is not None


def globs_meet(one: str, other: str) -> bool:
    """Whether some text fits both; True also for two that are too long to tell."""
    one, other = (re.sub(r"\*+", "*", unicodedata.normalize("NFC", glob)) for glob in (one, other))
    if len(one) * len(other) > _MOST_STEPS:
        return True
    reached = {0}  # how much of `other` can be used up together with what of `one` was
    for char in one:
        reached = _with_stars(reached, other)
        if char == "*":
            reached = set(range(min(reached), len(other) + 1))
        else:
            reached = {at for at in reached if at < len(other) and other[at] == "*"} | {
                at + 1 for at in reached if at < len(other) and _same(char, other[at])
            }
        if not reached:
            return False
    return len(other) in _with_stars(reached, other)


def _with_stars(reached: set[int], glob: str) -> set[int]:
    """A `*` also stands for no text."""
    return reached | {at + 1 for at in reached if at < len(glob) and glob[at] == "*"}


def _same(char: str, other: str) -> bool:
    return other != "*" and (char == other or "?" in (char, other))


def _piece(glob: str) -> re.Pattern[str]:
    """A glob without `*`: as long as what it matches."""
    return re.compile("".join("." if char == "?" else re.escape(char) for char in glob), re.DOTALL)

"""Names of agents: validation, comparison, and suggestions for wrong ones."""

from __future__ import annotations

import difflib
import hashlib
import re
import unicodedata
from collections.abc import Iterable

__all__ = ["agent_name", "default_icon", "name_key", "nearest", "nearest_names"]

_LONGEST_BYTES = 200
"""Leaves room for `.memory.md` and the like in a file name of 255 bytes."""

_ALIKE = 0.7

_ICONS = tuple("🐙🦊🐝🦉🐢🐬🦋🐞🦀🐧🦁🐼🦄🐳🦜🐌🌵🌻🍀🍄🌙🔥🌊🍋🍒🥝🎈🎲🎯🧩🪁🧭🔔🔭🧲🪶🚀🛶🏰🎨")


def agent_name(text: str) -> str:
    """The text, if it may name an agent. Raises ValueError saying why not."""
    if not text.strip():
        raise ValueError("a name cannot be empty")
    if text != text.strip():
        raise ValueError(f'the name "{text}" starts or ends with a blank; remove it')
    for char in unicodedata.normalize("NFC", text):
        if char not in " -_" and not _letter_or_digit(char):
            raise ValueError(f"a name may have letters, digits, blanks, - and _, not {_named(char)}")
    if len(text.encode()) > _LONGEST_BYTES:
        raise ValueError(f"the name is longer than {_LONGEST_BYTES} bytes; shorten it")
    return text


def name_key(name: str) -> str:
    """What two names are compared by: equal keys mean the same agent."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def default_icon(name: str) -> str:
    """An emoji that this name, and every equal one, always gets."""
    return _ICONS[hashlib.sha256(name_key(name).encode()).digest()[0] % len(_ICONS)]


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `word` is most likely a slip of."""
    return next(iter(nearest_names(word, candidates, 1)), None)


def nearest_names(word: str, candidates: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` candidates that resemble `word`, the best first; case does not count,
    nor does the order of words, if all are there."""
    by_key = {name_key(candidate): candidate for candidate in candidates}
    words = _words(word)
    swapped = [candidate for candidate in by_key.values() if len(words) > 1 and _words(candidate) == words]
    if swapped:
        return swapped[:count]
    return [by_key[key] for key in difflib.get_close_matches(name_key(word[:100]), by_key, count, _ALIKE)]


def _words(name: str) -> list[str]:
    return sorted(re.split(r"[-_. ]+", name_key(name[:100])))


def _named(char: str) -> str:
    return f'"{char}"' if char.isprintable() else f"U+{ord(char):04X}"


def _letter_or_digit(char: str) -> bool:
    category = unicodedata.category(char)
    return category[0] in "LM" or category == "Nd"

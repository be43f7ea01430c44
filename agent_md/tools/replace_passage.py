"""Replaces a passage of a text, with LF in the passage matching LF and CRLF in the text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator

__all__ = ["PassageNotFound", "PassageNotUnique", "TooLarge", "replaced"]

_LINE_END = re.compile(r"\r?\n")


class PassageNotFound(ValueError):
    """The passage is not in the text."""


class PassageNotUnique(ValueError):
    """The passage is in the text at several places, which may overlap."""


class TooLarge(ValueError):
    """The new text would have `size` bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def replaced(text: str, old: str, new: str, *, everywhere: bool, limit: int) -> str:
    """`text` with `new` in place of `old`, which must be there exactly once unless `everywhere`.

    A line end of `old` matches LF and CRLF. Lines that `old` and `new` have in common at their beginning and end stay as
    they are; what is new gets the line ends of the place. Only if `old` and `new` differ in nothing but line ends are
    they meant exactly. Raises PassageNotFound, PassageNotUnique, and TooLarge for a result of more than `limit` bytes, before it is
    built.
    """
    if _plain(old) == _plain(new):
        return _replaced_exactly(text, old, new, everywhere=everywhere, limit=limit)
    old, new = _plain(old), _plain(new)
    pairs, ends = text.count("\r\n"), text.count("\n")
    if pairs == 0 or "\n" not in old + new:
        return _replaced_exactly(text, old, new, everywhere=everywhere, limit=limit)
    if pairs == ends:
        old, new = old.replace("\n", "\r\n"), new.replace("\n", "\r\n")
        return _replaced_exactly(text, old, new, everywhere=everywhere, limit=limit)
    return _replaced_in_mixed(text, old, new, everywhere=everywhere, limit=limit)


def _replaced_exactly(text: str, old: str, new: str, *, everywhere: bool, limit: int) -> str:
    _check_there(text, old, everywhere=everywhere)
    count = text.count(old) if everywhere else 1
    _check_size(len(text.encode()) + count * (len(new.encode()) - len(old.encode())), limit)
    return text.replace(old, new, -1 if everywhere else 1)


def _replaced_in_mixed(text: str, old: str, new: str, *, everywhere: bool, limit: int) -> str:
    """In a text that has both line ends; `old` and `new` have LF alone."""
    plain = _Plain(text)
    _check_there(plain.text, old, everywhere=everywhere)
    before, after = _common_lines(old, new)
    kept = new[before : len(new) - after]
    variants = {end: kept.replace("\n", end) for end in ("\n", "\r\n")}

    def parts() -> Iterator[str]:
        done = 0
        for start in _places(plain.text, old, everywhere=everywhere):
            begin, end = plain.position(start + before), plain.position(start + len(old) - after)
            yield text[done:begin]
            yield variants[_line_end(text, begin, end)]
            done = end
        yield text[done:]

    _check_size(sum(len(part.encode()) for part in parts()), limit)
    return "".join(parts())


class _Plain:
    """A text with LF alone, and where each of its positions was in the original."""

    def __init__(self, text: str) -> None:
        self.text = _plain(text)
        # The position of the n-th pair in the plain text: each pair before it is one shorter there.
        self._pairs = [found.start() - n for n, found in enumerate(re.finditer("\r\n", text))]

    def position(self, plain: int) -> int:
        return plain + bisect_left(self._pairs, plain)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n")


def _check_there(text: str, old: str, *, everywhere: bool) -> None:
    first = text.find(old)
    if first < 0:
        raise PassageNotFound
    if not everywhere and text.find(old, first + 1) >= 0:
        raise PassageNotUnique


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise TooLarge(size)


def _places(text: str, old: str, *, everywhere: bool) -> Iterator[int]:
    """Where `old` begins: at its first place, or at all that do not overlap."""
    start = text.find(old)
    while start >= 0:
        yield start
        start = text.find(old, start + len(old)) if everywhere else -1


def _common_lines(one: str, other: str) -> tuple[int, int]:
    """How many characters of whole lines two different texts have in common at their beginning and at their end."""
    ones, others = one.split("\n"), other.split("\n")
    shorter = min(len(ones), len(others))
    first = next((n for n in range(shorter - 1) if ones[n] != others[n]), shorter - 1)  # the last piece has no end
    rest = shorter - first
    last = next((n for n in range(rest) if ones[-1 - n] != others[-1 - n]), rest)
    return len("".join(f"{line}\n" for line in ones[:first])), len("\n".join(ones[len(ones) - last :]))


def _line_end(text: str, begin: int, end: int) -> str:
    """The line end that a new line gets: of the passage it replaces, else of the line before, else of its own."""
    if (found := _LINE_END.search(text, begin, end)) is not None:
        return found.group()
    before = text.rfind("\n", 0, begin)
    if before >= 0:
        return "\r\n" if text[before - 1 : before] == "\r" else "\n"
    found = _LINE_END.search(text, end)
    return "\n" if found is None else found.group()

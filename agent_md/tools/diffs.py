"""Diffs of writes for approvals; shortened only with a note."""

from __future__ import annotations

import codecs
import difflib
import io
import re
from collections.abc import Iterator, Sequence

__all__ = ["as_text", "content_diff", "kind_of", "new_file_diff"]

_COMPARISONS = 1_000_000
"""Above this many pairs of changed lines a diff replaces them as one block: finding the shortest takes too long."""
_CONTEXT = 3
_HUNK = re.compile(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")


def as_text(data: bytes) -> str | None:
    """The text that `data` is in UTF-8; None if it is no text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def kind_of(head: bytes) -> str:
    """`text` or `binary`, by the first bytes of a file."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "binary"
    return "binary" if b"\0" in head else "text"


def new_file_diff(path: str, content: str) -> str:
    """A unified diff that makes a file."""
    lines = _lines(content)
    if not lines:
        return f"--- /dev/null\n+++ {_inline(path)}\nAn empty file is made.\n"
    return f"--- /dev/null\n+++ {_inline(path)}\n@@ -0,0 +1,{len(lines)} @@\n" + "".join(_signed("+", lines))


def content_diff(path: str, old: bytes | None, new: str, old_size: int) -> str:
    """A unified diff from a file's content to `new`. `old` None: too large to show, and the diff says so."""
    path = _inline(path)
    before = None if old is None else as_text(old)
    if before == new:
        return f"--- {path}\n+++ {path}\nThe file holds exactly this already.\n"
    if before is not None:
        return _text_diff(path, before, new)
    kind = "too large to be shown" if old is None else "binary"
    head = f"--- {path}\n+++ {path}\nThe present content ({old_size} bytes) is {kind}; all of it is replaced by:\n"
    return head + "".join(_signed("+", _lines(new)))


def _inline(path: str) -> str:
    return path.replace("\r", "\\r").replace("\n", "\\n")


def _text_diff(path: str, before: str, after: str) -> str:
    old, new = _lines(before), _lines(after)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    first, behind = max(start - _CONTEXT, 0), max(end - _CONTEXT, 0)
    one, other = old[first : len(old) - behind], new[first : len(new) - behind]
    if (len(old) - start - end) * (len(new) - start - end) > _COMPARISONS:
        return "".join(_one_block(path, one, other, first, start - first, end - behind))
    lines = difflib.unified_diff(one, other, path, path, n=_CONTEXT)
    return "".join(_with_newlines(_HUNK.sub(lambda found: _shifted(found, first), line) for line in lines))


def _shifted(hunk: re.Match[str], by: int) -> str:
    old, old_length, new, new_length = hunk.groups("")
    return f"@@ -{int(old) + by}{old_length} +{int(new) + by}{new_length} @@"


def _one_block(path: str, old: Sequence[str], new: Sequence[str], first: int, before: int, after: int) -> Iterator[str]:
    """All old lines, then all new ones, with `before` and `after` common lines around them."""
    yield f"--- {path}\n+++ {path}\n@@ -{first + 1},{len(old)} +{first + 1},{len(new)} @@\n"
    yield from _signed(" ", old[:before])
    yield from _signed("-", old[before : len(old) - after])
    yield from _signed("+", new[before : len(new) - after])
    yield from _signed(" ", old[len(old) - after :])


def _signed(sign: str, lines: Sequence[str]) -> Iterator[str]:
    return _with_newlines(f"{sign}{line}" for line in lines)


def _with_newlines(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str) -> list[str]:
    """Lines with their ends; only a line feed ends one, so that no other sign is lost."""
    return list(io.StringIO(text, newline="\n"))


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

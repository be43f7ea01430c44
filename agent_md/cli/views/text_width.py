"""Visible text in columns of a terminal: how wide it is, cut, filled, folded."""

from __future__ import annotations

__all__ = ["cut", "fold", "pad", "width_of", "wrapped"]

_NARROWEST = 10
"""Columns in which words are folded at least."""


def width_of(text: str) -> int:
    """How many columns a line of visible text takes."""
    from rich.cells import cell_len  # only commands that lay out text pay for it

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, its end given up for `…` when it does not fit."""
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…"


def fold(text: str, width: int | None) -> list[str]:
    """A line in pieces of at most `width` columns, after a blank where there is a late one; None = any width.

    Joined the pieces are the line. A character that is wider than that is a piece of its own. There is one piece at
    least.
    """
    if width is None or (len(text) <= width and text.isascii()):
        return [text]
    width = max(1, width)
    if text.isascii() and text.isprintable():
        return _fold_ascii(text, width)
    from rich.cells import split_graphemes

    spans, _ = split_graphemes(text)
    pieces: list[str] = []
    start = used = 0
    for at, _, columns in spans:
        if used + columns > width and at > start:
            end = _end_of_piece(text, start, at)
            pieces.append(text[start:end])
            start, used = end, width_of(text[end:at])
        used += columns
    return [*pieces, text[start:]]


def _fold_ascii(text: str, width: int) -> list[str]:
    """As `fold`, where each character takes one column: most of what tools give back, which may be long."""
    pieces: list[str] = []
    start = 0
    while len(text) - start > width:
        end = _end_of_piece(text, start, start + width)
        pieces.append(text[start:end])
        start = end
    return [*pieces, text[start:]]


def _end_of_piece(text: str, start: int, end: int) -> int:
    """Behind the last blank of a piece that could reach to `end`, if that is in its second half."""
    blank = text.rfind(" ", start + (end - start) // 2, end)
    return end if blank < 0 else blank + 1


def wrapped(line: str, width: int | None, *, hanging: int = 0) -> list[str]:
    """A visible line of ours folded at blanks, further pieces indented as it is, and by `hanging` more; None = any width.
    A painted line stays as it is."""
    if width is None or "\x1b" in line or width_of(line) <= width:
        return [line]
    words = line.lstrip(" ")
    indent = " " * (len(line) - len(words))
    pieces = fold(words, max(_NARROWEST, width - len(indent) - hanging))
    return [f"{indent}{' ' * hanging * (at > 0)}{piece.rstrip()}" for at, piece in enumerate(pieces)]


def pad(text: str, width: int) -> str:
    """The text cut or filled with blanks to exactly `width` columns."""
    shown = cut(text, width)
    return shown + " " * (width - width_of(shown))

"""Rows in columns that fit any width: cells are folded, never cut; where columns are too many, each row is a record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from agent_md.cli.views.screen import PLAIN, Screen, Style
from agent_md.cli.views.visible_text import fold, pad, width_of

__all__ = ["columns"]

_MARGIN = " "
_GAP = "  "
_NARROWEST = 12
"""Cells that a column keeps, unless its cells need fewer, when it gives way."""
_INDENT = "    "

Row = Sequence[str]


def columns(
    titles: Row,
    rows: Sequence[Row],
    screen: Screen = PLAIN,
    *,
    yielding: Sequence[int],
    least: Sequence[int] = (),
    below: Sequence[str] = (),
    only: Sequence[int] | None = None,
) -> list[str]:
    """Titles, a rule and the rows of one-line cells.

    What the screen lacks is taken from the `yielding` columns in this order, the first one first. `least` are widths
    that the first columns have at least. A column without a title belongs to the next one. `below` is a text for each
    row that stands under it, if it is not empty. With `only`, the indexes of some rows, those alone are given, without
    titles, as wide as in the whole table.
    """
    widths = [max(width_of(cell) for cell in column) for column in zip(titles, *rows, strict=True)]
    widths = [max(pair) for pair in zip_longest(widths, least, fillvalue=0)]
    if screen.width is not None:
        widths = _narrowed(widths, screen.width, yielding)
        if _span(widths) > screen.width:
            chosen = rows if only is None else [rows[index] for index in only]
            return _records(titles, chosen, screen.width, screen, below)
    blocks = [_lines(row, widths) for row in rows]
    if only is not None:
        return [line for index in only for line in blocks[index]]
    (title,) = _lines(titles, [max(pair) for pair in zip(widths, map(width_of, titles), strict=True)])
    rule = max(width_of(line) for block in ([title], *blocks) for line in block) - len(_MARGIN)
    body = [
        line for block, text in zip_longest(blocks, below, fillvalue="") for line in (*block, *_beneath(text, screen))
    ]
    return [screen.painter(title, Style.BOLD), _MARGIN + "─" * rule, *body]


def _span(widths: Sequence[int]) -> int:
    return len(_MARGIN) + sum(widths) + len(_GAP) * (len(widths) - 1)


def _narrowed(widths: Sequence[int], room: int, yielding: Sequence[int]) -> list[int]:
    narrowed = list(widths)
    for column in yielding:
        over = _span(narrowed) - room
        if over > 0:
            narrowed[column] = max(min(narrowed[column], _NARROWEST), narrowed[column] - over)
    return narrowed


def _lines(row: Row, widths: Sequence[int]) -> list[str]:
    """A row as one line, or several if its cells must be folded."""
    folded = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for cells in zip_longest(*folded, fillvalue=""):
        padded = [pad(cell, width) for cell, width in zip(cells[:-1], widths, strict=False)]
        lines.append((_MARGIN + _GAP.join([*padded, cells[-1]])).rstrip())
    return lines


def _beneath(text: str, screen: Screen) -> list[str]:
    if not text:
        return []
    indent = _MARGIN + _INDENT
    pieces = fold(text, screen.room(len(indent)))
    return [screen.painter((indent + piece).rstrip(), Style.DIM) for piece in pieces]


def _records(titles: Row, rows: Sequence[Row], room: int, screen: Screen, below: Sequence[str]) -> list[str]:
    label = max(width_of(title) for title in titles)
    lines: list[str] = []
    for row, text in zip_longest(rows, below, fillvalue=""):
        lines += [""] if lines else []
        before = ""
        for title, cell in zip(titles, row, strict=True):
            if not title:
                before = f"{cell} "
                continue
            lines += _entry(title, before + cell, label, room, screen)
            before = ""
        lines += _beneath(text, screen)
    return lines


def _entry(title: str, cell: str, label: int, room: int, screen: Screen) -> list[str]:
    """One cell beside its title, or below it if there it needs several lines."""
    left = room - len(_MARGIN) - label - len(_GAP)
    shown = screen.painter(title, Style.BOLD) + " " * (label - width_of(title))
    if width_of(cell) <= left:
        return [f"{_MARGIN}{shown}{_GAP}{cell}".rstrip()]
    return [f"{_MARGIN}{shown}".rstrip(), *(_INDENT + line for line in fold(cell, max(1, room - len(_INDENT))))]

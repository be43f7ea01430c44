"""Lays out rows in columns for any width: wraps cells, and shows each row as a record if columns do not fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent_md.cli.views.text_width import width_of

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = ["Listing"]

_MARGIN = 1
_GAP = 2
_INDENT = 4
"""Blanks before what stands below a row, and before a value below its title."""
_NARROWEST = 12
"""Cells that a column keeps, unless its cells need fewer, when it gives way."""

Row = Sequence[str]


class Listing:
    """Titles and rows of visible one-line cells, as a renderable for Rich."""

    def __init__(
        self,
        titles: Row,
        rows: Sequence[Row],
        *,
        yielding: Sequence[int],
        least: Sequence[int] = (),
        below: Sequence[str] = (),
        only: Sequence[int] | None = None,
    ) -> None:
        """`yielding` are the columns that give way where there is little room. `least` are widths that the first columns
        have at least.

        `below` is a visible text for each row that stands under it, if it is not empty. With `only`, the indexes of some
        rows, those alone are shown, without titles, as wide as in the whole listing.
        """
        self._titles = titles
        self._rows = rows
        self._yielding = yielding
        self._below = below
        self._only = only
        widths = (max(map(width_of, column)) for column in zip(titles, *rows, strict=True))
        self._widths = [max(pair) for pair in zip_longest(widths, least, fillvalue=0)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - _MARGIN
        widths = self._narrowed(room)
        if _span(widths) > room:
            yield from self._records(room)
        else:
            yield from self._table(widths)

    def _narrowed(self, room: int) -> list[int]:
        """The widths of the columns: of the yielding ones, the widest gives way first."""
        widths = [min(width, room) if at in self._yielding else width for at, width in enumerate(self._widths)]
        while _span(widths) > room:
            widest = max(self._yielding, key=widths.__getitem__)
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _table(self, widths: Sequence[int]) -> Iterator[RenderableType]:
        if self._only is None:
            yield _grid([self._titles], widths, style="bold")
            yield Padding.indent("─" * _span(widths), _MARGIN)
        rows: list[Row] = []
        for number in self._chosen():
            rows.append(self._rows[number])
            if any(self._below[number : number + 1]):
                yield _grid(rows, widths)
                yield from self._beneath(number)
                rows = []
        if rows:
            yield _grid(rows, widths)

    def _chosen(self) -> Sequence[int]:
        return range(len(self._rows)) if self._only is None else self._only

    def _beneath(self, number: int) -> Iterator[RenderableType]:
        for text in filter(None, self._below[number : number + 1]):
            yield Padding.indent(Text(text, "dim", overflow="fold"), _INDENT)

    def _records(self, room: int) -> Iterator[RenderableType]:
        """Each row as lines of a title and its cell, which stands below it if it does not fit beside it."""
        titles = [title.strip() for title in self._titles]
        label = max(map(width_of, titles))
        for count, number in enumerate(self._chosen()):
            yield from [Text()] if count else []
            for title, cell in zip(titles, self._rows[number], strict=True):
                beside = label + _GAP + width_of(cell) <= room
                head = Text(title.ljust(label), "bold")
                yield Padding.indent(head.append(" " * _GAP + cell, "not bold") if beside else head, _MARGIN)
                if not beside:
                    yield Padding.indent(Text(cell, overflow="fold"), _INDENT)
            yield from self._beneath(number)


def _span(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _fits(cell: str, width: int) -> bool:
    return width_of(cell) <= width


def _grid(rows: Sequence[Row], widths: Sequence[int], style: str = "") -> RenderableType:
    """Rows as columns of these widths. Those in a series that need no folding are one row of Rich's with many lines: that
    takes a tenth of the time."""
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for width in widths:
        grid.add_column(width=width, overflow="fold")
    for fit, series in groupby(rows, lambda row: all(map(_fits, row, widths))):
        for row in [map("\n".join, zip(*series, strict=True))] if fit else series:
            grid.add_row(*(Text(cell, style, no_wrap=fit) for cell in row))
    return Padding.indent(grid, _MARGIN)

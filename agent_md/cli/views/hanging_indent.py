"""Text with a hanging indent, so that wrapped lines never start in the first column like our own lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.text import Text

from agent_md.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Hanging", "Verbatim", "indented", "paragraph"]

_INDENT = 2
_TAB = 8


class Hanging:
    """A visible text whose first row begins at the margin and whose further rows and lines are indented. It is folded at
    words."""

    def __init__(self, text: Text, indent: int = _INDENT) -> None:
        self._text = text
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = min(self._indent, options.max_width // 2)
        text = self._text.copy()
        text.expand_tabs(_TAB)
        line, *further = text.split("\n", allow_blank=True)
        first = line.wrap(console, options.max_width, overflow="fold", no_wrap=options.no_wrap)[0]
        yield from Text().append(first).render(console, "\n")  # `render` leaves out the style of a whole text
        rest = line[len(first) :]
        rest = rest[len(rest) - len(rest.plain.lstrip()) :]
        for below in [rest, *further] if rest else further:
            for row in below.wrap(console, options.max_width - indent, overflow="fold", no_wrap=options.no_wrap):
                yield from Text(" " * indent).append(row).render(console, "\n")


class Verbatim:
    """Visible lines behind a margin, unchanged; lines that are too wide continue with a deeper indent."""

    def __init__(
        self, lines: Iterable[tuple[str, str]], margin: str = " " * _INDENT, further: str | None = None
    ) -> None:
        """`lines` are pairs of a text and its style; `further` is the margin of what goes on, a little more by default."""
        self._lines = list(lines)
        self._margin = margin
        self._further = f"{margin}{' ' * _INDENT}" if further is None else further

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line, look in self._lines:
            text, style = line.expandtabs(_TAB), console.get_style(look)
            fits = options.no_wrap or len(self._margin) + cell_len(text) <= options.max_width
            rows = [text] if fits else chop_cells(text, max(1, options.max_width - len(self._further)))
            for number, row in enumerate(rows):
                yield Segment(self._further if number else self._margin)
                yield Segment(row, style)
                yield Segment.line()


def paragraph(line: str, style: str = "") -> Hanging:
    """A visible line of our own, whose wrapped lines have its indent, or a little more."""
    return Hanging(Text(line, style), len(line) - len(line.lstrip(" ")) or _INDENT)


def indented(text: str, margin: str = " " * _INDENT) -> Verbatim:
    """The lines of a text of others, made visible, each behind a margin."""
    return Verbatim([(line, "") for line in visible(text).split("\n")], margin)

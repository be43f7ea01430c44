"""Text that goes on indented: what is folded at the edge of a terminal never begins a row, where lines of ours do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Hanging", "paragraph"]

_INDENT = 2


class Hanging:
    """A visible text whose first row begins at the margin and whose further rows and lines are indented."""

    def __init__(self, text: Text, indent: int = _INDENT) -> None:
        self._text = text
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(1, options.max_width - self._indent)
        first, *rest = self._text.wrap(console, width, overflow="fold", no_wrap=options.no_wrap)
        yield from first.render(console, "\n")
        for row in rest:
            yield from Text(" " * self._indent).append(row).render(console, "\n")


def paragraph(line: str, style: str = "") -> Hanging:
    """A visible line of ours, which goes on as far from the margin as it begins, or a little."""
    return Hanging(Text(line, style), len(line) - len(line.lstrip(" ")) or _INDENT)

"""Two columns of labels and values; one below the other if there is little room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent_md.cli.views.text_width import width_of
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Pairs"]

_INDENT = 2
_LABEL_CELLS = 34
_LEAST = 50
"""Columns of a terminal below which the texts stand under their labels."""


class Pairs:
    """Pairs of a label and a text, which are made visible. A label that is too wide for its column is shown above its
    text, as is a label without a text."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._pairs = [(one_line(label), one_line(text)) for label, text in pairs]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        most = 0 if options.max_width < _LEAST else min(_LABEL_CELLS, options.max_width // 2)
        column = min(most, max((width_of(label) for label, text in self._pairs if text), default=0))
        for label, text in self._pairs:
            beside = text and width_of(label) <= column
            if not beside:
                yield Padding.indent(Text(label, overflow="fold"), _INDENT)
            if text:
                row = Table.grid(padding=(0, _INDENT, 0, 0))
                row.add_column(width=column)
                row.add_column(overflow="fold")
                row.add_row(Text(label if beside else ""), Text(text))
                yield Padding.indent(row, _INDENT)

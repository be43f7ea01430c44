"""Renderables for the live rows while an agent works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from agent_md.cli.views.durations import spent
from agent_md.cli.views.hanging_indent import Hanging
from agent_md.visible_text import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["StreamingText", "Working"]


class Working:
    """The row that says what goes on, and for how long: `⠙ cleaner · thinking… 4 s`. `agent` is visible."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._spinner = Spinner("dots", Text())  # a str would be read as markup
        self.label = ""
        """What goes on; visible."""
        self.passed = 0.0
        """Seconds since it began."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        time_passed = f" {spent(self.passed)}" if self.passed >= 1 else ""
        self._spinner.update(text=Text(f"{self._agent} · {self.label}…{time_passed}"))
        row = self._spinner.render(console.get_time())
        assert isinstance(row, Text)
        row.truncate(options.max_width, overflow="ellipsis")
        row.stylize("dim")
        yield row


class StreamingText:
    """A text of others that comes in pieces: its last rows, as high as the screen allows with one row below it.

    If they are not all, the first of them says so. It costs as much as is shown, however long the text is.
    """

    def __init__(self, head: Text) -> None:
        """`head` stands before the text."""
        self._head = head
        self._text = ""

    def add(self, piece: str) -> None:
        self._text += piece

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        most = max(1, options.max_height - 1)
        enough = most * options.max_width
        start = max(0, len(self._text) - enough) // enough * enough  # rows are folded at the same places for a while
        text = self._head.copy().append(visible(self._text[start:], prose=True))
        rows = console.render_lines(Hanging(text), options, pad=False)
        if start or len(rows) > most:
            rows = [list(self._head.copy().append("…").render(console)), *rows[len(rows) - most + 1 :]]
        for row in rows:
            yield from (*row, Segment.line())

"""Renders an agent's Markdown for terminals with styles.

Nothing in it is hidden: HTML, entities, images and definitions of links stay as they are written, and links are followed
by their addresses. Nothing in it is obeyed: it is made visible before it is read, and again before it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from markdown_it import MarkdownIt
from pygments.token import Comment, Generic, Keyword, Name, Number, String
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax
from rich.table import Table
from rich.text import Text

from agent_md.cli.views.hanging_indent import Hanging
from agent_md.visible_text import visible

if TYPE_CHECKING:
    from markdown_it.token import Token
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult

__all__ = ["CODE_THEME", "Answer"]

_AS_WRITTEN = ["autolink", "entity", "html_block", "html_inline", "image", "reference"]
_LONGEST = 100_000
"""Characters. A longer text takes long to lay out."""
_NARROWEST = 20
_UNFOLDED = 1 << 20
_INDENT = 2

CODE_THEME = ANSISyntaxTheme(
    {
        Comment: Style(dim=True),
        Generic.Deleted: Style(color="red"),
        Generic.Heading: Style(bold=True),
        Generic.Inserted: Style(color="green"),
        Generic.Subheading: Style(dim=True),
        Keyword: Style(bold=True),
        Name.Tag: Style(bold=True),
        Number: Style(color="magenta"),
        String: Style(color="green"),
    }
)
"""Looks of code and of diffs: the terminal's own colours, on its own background."""


class Answer:
    """A text of an agent behind a visible head. Its first paragraph begins beside the head, all else is indented."""

    def __init__(self, head: Text, text: str) -> None:
        self._head = head
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if len(self._text) <= _LONGEST and options.max_width >= _NARROWEST:
            try:
                yield from list(self._laid_out(console, options))
                return
            except Exception:  # noqa: S110 - whatever Rich cannot lay out is shown as it was written
                pass
        yield Hanging(self._head.copy().append(visible(self._text, prose=True)))

    def _laid_out(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        tokens = _parsed(visible(self._text, prose=True))
        beside = tokens[:3] if tokens and tokens[0].type == "paragraph_open" else []
        below = tokens[len(beside) :]
        first = _lines(_Laid(beside), console, options.update_width(_UNFOLDED))
        head = self._head.copy().append_text(
            Text("\n").join(Text.assemble(*((s.text, s.style or "") for s in line)) for line in first)
        )
        yield from console.render(Hanging(head), options)
        if beside and below:
            yield Segment.line()
        for line in _lines(_Laid(below), console, options.update_width(options.max_width - _INDENT)):
            yield from (Segment(" " * _INDENT), *line, Segment.line())


def _lines(markdown: Markdown, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    return [
        [Segment(visible(text, prose=True), style) for text, style, _ in line]
        for line in console.render_lines(markdown, options, pad=False)
    ]


def _parsed(text: str) -> list[Token]:
    tokens = MarkdownIt().enable(["strikethrough", "table"]).disable(_AS_WRITTEN).parse(text)
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"  # lines of models are meant
    return tokens


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=CODE_THEME, word_wrap=True)


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {f"h{level}": "default" for level in range(1, 7)}


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            for column in table.columns if isinstance(table, Table) else ():
                column.overflow = "fold"
            yield table


class _Laid(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "code_block": _Code,
        "fence": _Code,
        "heading_open": _Heading,
        "table_open": _Table,
    }

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__("", justify="default", hyperlinks=False)
        self.parsed = tokens

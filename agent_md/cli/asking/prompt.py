"""Asks one question on the terminal; a cancelled question is withdrawn at once.

Only what is typed while a question stands open can answer it. What was typed before it, and what was half typed when
it was withdrawn, is thrown away. Several lines that come at once belong to the one question, and never end it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import termios
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO, TypeVar

from agent_md.cli.terminal.external_editor import EditorFailed, edited_outside, editor_command
from agent_md.cli.terminal.line_mode import LineMode
from agent_md.cli.terminal.pager import pager_command, show_paged
from agent_md.cli.views.hanging_indent import paragraph
from agent_md.cli.views.questions import QuestionText
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen
from agent_md.errors import AgentmdError, AnswerRefused
from agent_md.process.standard_streams import person
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["PromptClosed", "TerminalPrompt", "can_prompt"]

T = TypeVar("T")

_PAGED = "  (longer than the screen; q goes to the question)"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class PromptClosed(AgentmdError):
    """The terminal gave its end of input (Ctrl-D) or is gone; the question stays unanswered."""


def can_prompt(source: TextIO | None = None, output: TextIO | None = None) -> bool:
    """Whether both standard input and standard output are terminals; only then may a human be asked."""
    streams = (source or person(sys.stdin), output or person(sys.stdout))
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


class LineReader(Protocol):
    """Reads texts from one terminal: `LineEditor`, or `LineMode` where nothing can be drawn."""

    edits: bool
    """Whether `read` can begin with a text."""

    async def read(self, prompt: str, *, typed_ahead: bool = False, text: str = "") -> str:
        """The text that was typed after the prompt, beginning with `text`. Raises EOFError at the end of input."""


class TerminalPrompt:
    """Questions on one terminal, one at a time. To withdraw a question, cancel the task that asks it.

    Ctrl-C is left to the process's SIGINT handler, which cancels that task too.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        source: int | None = None,
        output: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.screen = screen
        self._source = person(sys.stdin).fileno() if source is None else source
        self._output = person(sys.stdout) if output is None else output
        self._environ = environ
        self._reader: LineReader | None = None

    async def ask(self, question: QuestionText, parse: Callable[[str], T]) -> T:
        """What `parse` makes of the line that was typed; the question is put again while it raises AnswerRefused.

        Raises PromptClosed at the end of input. Cancelled, it leaves the cursor on a fresh line and nothing half typed.
        """
        with _closed_without_terminal():
            await self.show(question.above)
            self._write(self._lines(question.lines))
            while True:
                typed = ""
                try:
                    typed = await self._read(question.prompt)
                    return parse(_clean(typed))
                except AnswerRefused as refused:
                    lines = len(typed.splitlines())
                    at_once = f"{lines} lines came at once, and none of them counts: " if lines > 1 else ""
                    self.tell(f"  {at_once}{one_line(str(refused))}")

    def tell(self, line: RenderableType) -> None:
        """A visible line that belongs to a question and wants no answer, folded at words."""
        with contextlib.suppress(OSError):  # a terminal that is gone is noticed by whoever asks next
            self._write(self._lines([line]))

    async def show(self, items: Sequence[RenderableType]) -> None:
        """Visible lines and renderables, through the pager where they are higher than the screen. Raises PromptClosed."""
        lines = self._lines(items)
        with _closed_without_terminal():
            if not await self._paged(lines):
                self._write(lines)

    async def edit(self, text: str, name: str) -> str | None:
        """The text as it was left in `$VISUAL` or `$EDITOR`, where it is in a file `name`, or else here. None if it was
        emptied or the editor failed, which is told. Raises PromptClosed, and AnswerRefused for what cannot be meant."""
        command = editor_command(self._environ)
        try:
            with _closed_without_terminal():
                if command is None:
                    edited = await self._edit_here(text)
                else:
                    self._output.flush()
                    ends = self._source, self._output.fileno()
                    edited = await edited_outside(text, name, command, self._environ, *ends)
        except EditorFailed as error:
            self.tell(f"  {one_line(str(error))}; nothing was edited")
            return None
        return _clean(edited) if edited.strip() else None

    async def _edit_here(self, text: str) -> str:
        reader = self._made_reader()
        if not reader.edits:
            self.tell("  Type the new text; several lines have to come at once. An empty line leaves it as it is.")
            return await self._read("  ")
        self.tell("  Enter takes the text, Alt-Enter begins a line; an empty text leaves it as it is.")
        return await self._read("  ", text)

    async def _paged(self, lines: Sequence[str]) -> bool:
        if self.screen.height is None or len(lines) <= self.screen.height:
            return False
        command = pager_command(self._environ)
        if command is None:
            return False
        self._output.flush()
        text = "".join(f"{line}\n" for line in [*self._lines([_PAGED]), *lines])
        return await show_paged(text, command, self._environ, self._source, self._output.fileno())

    def _made_reader(self) -> LineReader:
        if self._reader is None:
            self._reader = line_reader(self._source, self._output, self.screen, self._environ)
        return self._reader

    async def _read(self, prompt: str, text: str = "") -> str:
        """The typed text. Raises PromptClosed at the end of input."""
        try:
            return await self._made_reader().read(prompt, text=text)
        except EOFError:
            raise PromptClosed("the input ended before an answer was typed") from None

    def _lines(self, items: Sequence[RenderableType]) -> list[str]:
        return rendered(self.screen, *(paragraph(item) if isinstance(item, str) else item for item in items))

    def _write(self, lines: Sequence[str]) -> None:
        self._output.writelines(f"{line}\n" for line in lines)
        self._output.flush()


@contextlib.contextmanager
def _closed_without_terminal() -> Iterator[None]:
    try:
        yield
    except (OSError, termios.error) as error:
        raise PromptClosed(f"the terminal is gone ({error})") from error


def line_reader(source: int, output: TextIO, screen: Screen, environ: Mapping[str, str]) -> LineReader:
    """What reads answers from this terminal. It keeps none of them."""
    if environ.get("TERM", "dumb") == "dumb":
        return LineMode(source, output)
    from agent_md.cli.terminal.line_editor import LineEditor  # only who is asked pays for its import

    return LineEditor(source, output, colour=screen.colour)


def _clean(typed: str) -> str:
    """The typed text; bytes that are no UTF-8 are shown as escapes. Raises AnswerRefused for what cannot be meant."""
    text = typed.encode(errors="surrogateescape").decode(errors="backslashreplace")
    if _CONTROL.search(text):
        raise AnswerRefused(f"the answer holds control characters, perhaps of an arrow key: {one_line(text)}")
    return text

"""The line editor, on prompt_toolkit: reads a text of any length. The only module that runs prompt_toolkit.

The editor is drawn below what was printed. When Enter ends the text, it stays as it stands. A text that is higher than the
screen, or no longer wanted, is taken away and printed once more, whole.
"""

from __future__ import annotations

import asyncio
import io
import os
import signal
import termios
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import DEFAULT_BUFFER
from prompt_toolkit.filters import has_focus
from prompt_toolkit.formatted_text import StyleAndTextTuples, fragment_list_to_text, to_formatted_text
from prompt_toolkit.history import DummyHistory, History
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import PromptSession

from agent_md.cli.terminal.keys_and_pastes import TerminalInput
from agent_md.cli.terminal.signals import taken_over
from agent_md.cli.views.screen import terminal_size
from agent_md.cli.views.text_width import width_of
from agent_md.process.standard_streams import write_now
from agent_md.visible_text import visible, visible_characters

__all__ = ["LineEditor"]

_ESCAPE_S = 0.05
"""What comes later does not belong to a key that began with Escape."""
_PASTES_UNMARKED = "\x1b[?2004l"
_TAB = 8
_INDENT = "  "
_MARK = "?"
"""The first character of a question, shown in bold."""
_PLAIN = "fg:ansidefault"
"""Blanks without a style are left out at the end of a line; that of a prompt is to be drawn."""


class LineEditor:
    """Reads texts from one terminal, one after the other, with the keys of a shell (Emacs).

    Enter ends a text, Alt-Enter starts a new line. A paste stays in the editor until Enter is pressed. Ctrl-C clears
    the text; without a text it raises SIGINT in this process."""

    def __init__(
        self,
        source: int,
        output: TextIO,
        *,
        colour: bool,
        history: History | None = None,
        completer: Completer | None = None,
    ) -> None:
        """`source` is the descriptor that is read. Without a `history` no text is kept, not even for the next one."""
        self._source = source
        self._stream = output
        self._input = TerminalInput(source)
        self._output = _Output(output)
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            prompt_continuation=_continuation,
            complete_while_typing=False,
            completer=completer,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            history=history or DummyHistory(),
            input_processors=[_Visible()],
            key_bindings=_bindings(self._before_end),
            erase_when_done=True,
            input=self._input,
            output=self._output,
        )
        self._session.app.ttimeoutlen = _ESCAPE_S

    edits = True

    async def read(self, prompt: str, *, typed_ahead: bool = False, text: str = "") -> str:
        """Returns the text that Enter ended; bytes that are not UTF-8 are surrogates in it. `text` is the initial
        content.

        Keys pressed before the prompt was drawn are appended with `typed_ahead`, otherwise discarded. Raises EOFError
        at Ctrl-D without a text, and when the terminal is gone. Always restores the mode of the terminal, also when
        cancelled."""
        with self._input.raw_mode():
            default = text + (self._input.typed_ahead() if typed_ahead else "")
            if not typed_ahead:
                self._output.before_first = self._discard
            clear_typeahead(self._input)
            self._output.stdout = self._stream
            try:
                with self._suspendable():
                    text = await self._session.prompt_async(
                        _fragments(prompt), default=default, handle_sigint=False, set_exception_handler=False
                    )
            finally:
                behind = get_typeahead(self._input)
                self._leave(prompt)
        if any(key.key == Keys.ControlC for key in behind):  # it was read together with Enter
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)  # a handler that cancels this task does so now
        return text

    def _discard(self) -> None:
        with suppress(termios.error):
            termios.tcflush(self._source, termios.TCIFLUSH)

    def _before_end(self, text: str) -> None:
        """Draws the text as it stays, if all of it fits the screen; from then on nothing is drawn."""
        app, size = self._session.app, self._output.get_size()
        shown = fragment_list_to_text(to_formatted_text(self._session.message)) + visible(text)
        if sum(1 + (len(_INDENT) + width_of(line)) // size.columns for line in shown.split("\n")) < size.rows:
            app.renderer.render(app, app.layout)
            self._output.stdout = io.StringIO()

    def _leave(self, prompt: str) -> None:
        """Puts the cursor on the row below."""
        drawn = self._output.stdout is not self._stream
        typed = visible(self._session.default_buffer.text).replace("\n", f"\n{_INDENT}")
        with suppress(OSError):  # a terminal that is gone is noticed by whoever asks next
            write_now(self._stream, f"{_PASTES_UNMARKED}\n" if drawn else f"{prompt}{typed}\n")

    @contextmanager
    def _suspendable(self) -> Iterator[None]:
        """SIGTSTP from outside does what Ctrl-Z does; after SIGCONT the terminal hands over each key again."""
        app, loop = self._session.app, asyncio.get_running_loop()
        stop_before = signal.getsignal(signal.SIGTSTP)
        modes = termios.tcgetattr(self._source)

        def stop() -> None:
            ours = signal.signal(signal.SIGTSTP, stop_before)
            os.kill(0, signal.SIGTSTP)  # returns when the process goes on
            signal.signal(signal.SIGTSTP, ours)

        def obey(number: int) -> None:
            if not app.is_running:
                return
            if number == signal.SIGTSTP:
                run_in_terminal(stop)
            else:
                with suppress(termios.error):
                    termios.tcsetattr(self._source, termios.TCSANOW, modes)
                app.invalidate()

        def on_signal(number: int) -> None:
            loop.call_soon_threadsafe(obey, number, context=app.context.copy() if app.context else None)

        with taken_over((signal.SIGTSTP, signal.SIGCONT), on_signal):
            yield


class _Output(Vt100_Output):
    """A terminal that is never asked for the place of its cursor: its answer could come when nobody reads it."""

    def __init__(self, stream: TextIO) -> None:
        def size() -> Size:
            columns, rows = terminal_size(stream)
            return Size(rows=rows, columns=columns)

        super().__init__(stream, size, term=os.environ.get("TERM"), enable_cpr=False)
        self.before_first: Callable[[], None] | None = None
        """Called when the next thing is about to be drawn."""

    def flush(self) -> None:
        before, self.before_first = self.before_first, None
        if before is not None:
            before()
        with suppress(OSError):  # the reading side meets it too
            super().flush()


class _Visible(Processor):
    """Shows what is typed as `visible` does: nothing in it is obeyed or hidden."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        fragments = explode_text_fragments(transformation_input.fragments)
        line = "".join(fragment[1] for fragment in fragments)
        if line.isascii() and line.isprintable():
            return Transformation(fragments)
        places: list[int] = []
        shown: StyleAndTextTuples = []
        width = 0
        for (style, *_), piece in zip(
            fragments, _untabbed(visible_characters(line), transformation_input.lineno), strict=True
        ):
            places.append(width)
            shown.append((style, piece))
            width += len(piece)
        places.append(width)
        return Transformation(
            shown,
            source_to_display=lambda at: places[min(at, len(places) - 1)],
            display_to_source=lambda at: max(0, bisect_right(places, at) - 1),
        )


def _untabbed(characters: list[str], line: int) -> list[str]:
    """The characters of a line with its tabs as blanks."""
    if "\t" not in characters:
        return characters
    column, shown = len(_INDENT) if line else 0, []
    for character in characters:
        shown.append(" " * (_TAB - column % _TAB) if character == "\t" else character)
        column += width_of(shown[-1])
    return shown


def _continuation(width: int, line: int, wrapped: int) -> str:
    return "" if wrapped else _INDENT


def _fragments(line: str) -> StyleAndTextTuples:
    """A visible line of ours."""
    mark = _MARK if line.startswith(_MARK) else ""
    return [(f"{_PLAIN} bold", mark), (_PLAIN, line.removeprefix(mark))]


def _bindings(before_end: Callable[[str], None]) -> KeyBindings:
    bindings = KeyBindings()
    typing = has_focus(DEFAULT_BUFFER)

    @bindings.add("enter", filter=typing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None:
            buffer.complete_state = None
        else:
            buffer.cursor_position = len(buffer.text)
            before_end(buffer.text)
            buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=typing)
    @bindings.add("escape", "c-j", filter=typing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @bindings.add("c-c", filter=typing)
    def _(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            signal.raise_signal(signal.SIGINT)

    @bindings.add("c-z")
    def _(event: KeyPressEvent) -> None:
        signal.raise_signal(signal.SIGTSTP)

    return bindings

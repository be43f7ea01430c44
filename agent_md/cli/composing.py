"""A line editor on a terminal, for texts of any length and number of lines. It holds nothing but the terminal's modes.

The keys are in `keys.py`, what they do in `editing.py`; here is what the terminal sees of it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from agent_md.cli.editing import EditedText, Layout, laid_out
from agent_md.cli.keys import PASTE_OFF, PASTE_ON, Key, KeyReader
from agent_md.cli.screen import WRAP_OFF, WRAP_ON, terminal_size
from agent_md.cli.signals import suspendable, taken_over
from agent_md.cli.streams import person, write_now
from agent_md.cli.text import visible, width_of

__all__ = ["Composer"]

_SAME_KEY_S = 0.05
"""What comes later does not belong to a key that has begun with Escape."""
_PIECE = 65_536
_NOTHING = Layout(("",), 0, 0)


class Composer:
    """Reads texts from the terminal of standard input and output.

    What was typed while there was no prompt is put into the next text, and waits for Enter like all else. Earlier texts
    can be called back.
    """

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._input = sys.stdin.fileno()
        self._output = person(sys.stdout)
        self._keys = KeyReader()
        self._ahead: list[Key | str] = []
        self._past: list[str] = []
        self._edited = EditedText()
        self._layout = _NOTHING

    def read(self) -> str | None:
        """The text that Enter ended; None at the end of input: Ctrl-D in an empty text, or a terminal that is gone.

        Whatever a signal handler raises passes through; the terminal has its modes again.
        """
        self._edited, self._layout = EditedText(self._past), _NOTHING
        try:
            with self._keys_at_once() as set_modes, self._signals(set_modes):
                self._take_typed_ahead()
                self._draw()
                ended = self._until_ended()
        except (EOFError, OSError, termios.error):
            return None
        if ended is Key.END_OF_INPUT:
            return None
        text = self._edited.text
        if text.strip() and text not in self._past[-1:]:
            self._past.append(text)
        return text

    def _until_ended(self) -> Key:
        while True:
            keys = self._next_keys()
            for index, key in enumerate(keys, 1):
                if key is Key.ENTER or (key is Key.END_OF_INPUT and not self._edited.text):
                    self._ahead = keys[index:]
                    return key
                self._edited.apply(Key.DELETE if key is Key.END_OF_INPUT else key)
            if not self._ready(0):  # a long text that is pasted comes in many pieces
                self._draw()

    def _next_keys(self) -> list[Key | str]:
        if self._keys.undecided and not self._ready(_SAME_KEY_S):
            self._keys.forget()
        self._ready(None)
        data = os.read(self._input, _PIECE)
        if not data:
            raise EOFError
        return self._keys.feed(data)

    def _ready(self, patience: float | None) -> bool:
        return bool(select.select([self._input], [], [], patience)[0])

    def _take_typed_ahead(self) -> None:
        keys, self._ahead = self._ahead, []
        while self._ready(0) and (data := os.read(self._input, _PIECE)):
            keys += self._keys.feed(data)
        for key in keys:
            self._edited.apply(Key.NEW_LINE if key is Key.ENTER else key)
        typed = self._edited.text.strip("\n")
        self._edited.text, self._edited.cursor = typed, min(self._edited.cursor, len(typed))

    # The terminal

    @contextmanager
    def _keys_at_once(self) -> Iterator[Callable[[bool], None]]:
        """Each key comes at once and without an echo as long as this lasts. Gives what changes that, to and fro."""
        before = termios.tcgetattr(self._input)
        wanted: list[Any] = [*before[:6], [*before[6]]]
        wanted[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
        wanted[3] = (wanted[3] | termios.ISIG) & ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
        wanted[6][termios.VMIN], wanted[6][termios.VTIME] = 1, 0

        def set_modes(at_once: bool) -> None:
            termios.tcsetattr(self._input, termios.TCSADRAIN, wanted if at_once else before)
            self._write(PASTE_ON if at_once else PASTE_OFF)

        set_modes(True)
        try:
            yield set_modes
        finally:
            with suppress(OSError, termios.error):  # a terminal that is gone needs no modes
                self._draw_whole()
                set_modes(False)

    @contextmanager
    def _signals(self, set_modes: Callable[[bool], None]) -> Iterator[None]:
        """Draws anew when the screen has another size; Ctrl-Z leaves the terminal as it was."""

        def redraw() -> None:
            with suppress(OSError):
                self._draw()

        def leave() -> None:
            self._draw_whole()
            set_modes(False)

        def come_back() -> None:
            set_modes(True)
            self._layout = _NOTHING
            redraw()

        with taken_over((signal.SIGWINCH,), lambda _: redraw()), suspendable(leave, come_back):
            yield

    def _draw(self) -> None:
        columns, lines = terminal_size(self._output)
        edited = self._edited
        whole = laid_out(self._prompt, edited.text, edited.cursor, columns)
        new = whole.last(max(1, lines - 1))
        up = len(new.rows) - 1 - new.row
        back = (f"\x1b[{up}A" if up else "") + "\r" + _columns_of(new.rows[new.row], new.column)
        self._write(f"{self._to_start(columns)}{WRAP_OFF}\x1b[J" + "\n".join(new.rows) + back + WRAP_ON)
        self._layout = new

    def _draw_whole(self) -> None:
        """All of it, for the terminal to fold as it likes, and the cursor on the row below."""
        shown = visible(self._edited.text).replace("\n", "\n  ")
        self._write(f"{self._to_start(terminal_size(self._output)[0])}\x1b[J{self._prompt}{shown}\n")

    def _to_start(self, columns: int) -> str:
        """From the cursor to where the first row begins, which a narrower terminal may have folded."""
        above = self._layout.rows[: self._layout.row]
        up = sum(max(1, -(-width_of(row) // columns)) for row in above) + self._layout.column // columns
        return (f"\x1b[{up}A" if up else "") + "\r"

    def _write(self, text: str) -> None:
        write_now(self._output, text)


def _columns_of(row: str, columns: int) -> str:
    """The beginning of a row that takes so many columns: written again it moves the cursor there."""
    taken = 0
    for index, character in enumerate(row):
        if taken >= columns:
            return row[:index]
        taken += width_of(character)
    return row

"""Live rows at the end of a terminal's output: draws, updates and erases them.

The cursor rests at their beginning. So they are taken away by clearing from there on, whatever became of them: a
terminal that was made narrower may have folded them.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

from agent_md.cli.terminal.signals import suspendable, taken_over
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen, terminal_size
from agent_md.process.standard_streams import person, write_now

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["NOWHERE", "QUIET_S", "TICK_S", "LiveArea"]

TICK_S = 0.1
"""How often the rows are to be shown anew."""
QUIET_S = 0.3
"""What takes less shows no progress: it would only flicker."""

_CLEAR = "\r\x1b[J"
_WRAP_OFF, _WRAP_ON = "\x1b[?7l", "\x1b[?7h"
"""Around rows of which one may be wider than we think: the terminal cuts it instead of making two of it."""


class LiveArea:
    """The rows below the printed output. Code that prints to the same terminal must call `withdraw` first.

    While rows are shown, typed keys are not echoed, because that would move the cursor; they stay available to the next
    reader. Nothing is shown while the process is in the background of its terminal."""

    def __init__(self, stream: TextIO | None, screen: Screen) -> None:
        """`stream` is a terminal that knows the usual sequences; None = never show anything."""
        self._screen = screen
        self._stream = stream
        self._shown = False
        self._modes: list[object] | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> LiveArea:
        """That of standard output, if it is a terminal at which somebody sits: no CI job, no dumb one."""
        stream = person(sys.stdout)
        able = stream.isatty() and environ.get("TERM", "dumb") != "dumb" and not environ.get("CI")
        return cls(stream if able else None, Screen.of(stream, environ))

    @property
    def enabled(self) -> bool:
        return self._stream is not None

    def show(self, *items: RenderableType) -> None:
        """Shows these instead of what was shown before. They are to take at most half of the screen."""
        if self._stream is None or not self._in_front():
            return
        columns, lines = terminal_size(self._stream)
        screen = replace(self._screen, width=columns, height=max(1, lines // 2))
        *upper, last = rendered(screen, *items)
        up = f"\x1b[{len(upper)}A" if upper else ""
        above = "".join(f"\x1b[K{row}\r\n" for row in upper)
        self._silence()
        self._shown = True  # before it is: a signal between these two lines must not leave it there
        self._write(f"\r{_WRAP_OFF}{above}\x1b[J{last}{_WRAP_ON}{up}\r")

    def withdraw(self) -> None:
        """Takes away what is shown; the cursor is where the next line is to be printed."""
        if self._shown:
            self._write(_CLEAR)
            self._shown = False
        if self._modes is not None and self._in_front():
            modes, self._modes = self._modes, None
            with suppress(termios.error):
                termios.tcsetattr(self._number(), termios.TCSANOW, modes)  # type: ignore[arg-type]

    def make_room(self) -> None:
        """For a signal handler that is about to write a line, perhaps in the middle of `show`."""
        if self._shown:
            self._write(_CLEAR)

    @contextmanager
    def suspendable(self) -> Iterator[None]:
        """As long as this lasts the rows are taken away before Ctrl-Z stops the process."""
        if not self.enabled:
            yield
            return
        with suspendable(self.withdraw), taken_over((signal.SIGCONT,), self._forget):
            yield

    def _forget(self, _: int) -> None:
        """After a stop that nobody was asked about the cursor is wherever the shell left it."""
        self._shown = False

    def _silence(self) -> None:
        if self._modes is None:
            with suppress(termios.error):
                modes = termios.tcgetattr(self._number())
                silent = [*modes]
                silent[3] &= ~(termios.ECHO | termios.ECHONL)
                termios.tcsetattr(self._number(), termios.TCSANOW, silent)
                self._modes = modes

    def _in_front(self) -> bool:
        try:
            return self._stream is not None and os.tcgetpgrp(self._number()) == os.getpgrp()
        except OSError:
            return False

    def _number(self) -> int:
        return self._stream.fileno() if self._stream is not None else -1

    def _write(self, text: str) -> None:
        if self._stream is not None:
            with suppress(OSError):
                write_now(self._stream, text)


NOWHERE = LiveArea(None, Screen())
"""Shows nothing, ever."""

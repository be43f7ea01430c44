"""Handles stop signals of a command that drives or follows: cancel the execution, or leave it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agent_md.cli.exit_codes import INTERRUPTED
from agent_md.cli.terminal.live_rows import LiveArea
from agent_md.cli.terminal.signals import exit_now, taken_over
from agent_md.executions.ids import ExecutionId
from agent_md.process.standard_streams import person, write_now

__all__ = ["Leaving", "Left"]


class Left(Exception):
    """The command leaves the execution; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Leaving:
    """While the execution is driven here, Ctrl-C cancels it, and a second one ends the process. Every other signal, and
    Ctrl-C at any other time, makes the command leave it."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        live: LiveArea,
        execution_id: ExecutionId,
        cancel: Callable[[], object],
        note_stop_request: Callable[[], object],
    ) -> None:
        """`cancel` is called in the loop; `note_stop_request` in a signal handler, when the process is to end."""
        self.driving = False
        """Whether the execution is driven here; kept up by the command."""
        self.cancelled = False
        """Whether `cancel` was called."""
        self.asked: asyncio.Future[int] = loop.create_future()
        """Done when the command is to leave; the exit code."""
        self._loop = loop
        self._live = live
        self._id = execution_id
        self._cancel = cancel
        self._told_to_stop = note_stop_request
        self._pressed = False
        self._other: int | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Signals are obeyed as long as this lasts."""
        with taken_over((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), self._on_signal):
            yield

    def code_after(self, code: int) -> int:
        """The exit code, if the execution came to `code`: Ctrl-C counts also in its last moment. Another signal that came
        too late is raised again, for whoever goes on now."""
        late = self._other
        if late is not None and code != 128 + late and callable(signal.getsignal(late)):
            signal.raise_signal(late)
        return INTERRUPTED if self._pressed and code < 128 else code

    def leave(self, code: int) -> None:
        """Has the command leave with this exit code. May be called from any thread."""
        with suppress(RuntimeError):  # it has gone
            self._loop.call_soon_threadsafe(self._ask, code)

    def _on_signal(self, number: int) -> None:
        """Runs at once, also while a tool blocks the loop, in which the rest is done."""
        if number != signal.SIGINT:
            self._other = number
            self._told_to_stop()
        elif self.driving:
            if self._pressed:
                self._live.withdraw()
                exit_now(INTERRUPTED)
            self._pressed = True
            self._live.make_room()
            with suppress(OSError):
                text = f"cancelling execution {self._id}; press Ctrl-C again to leave at once\n"
                write_now(person(sys.stderr), text)
        self._loop.call_soon_threadsafe(self._obey, number)

    def _obey(self, number: int) -> None:
        if number == signal.SIGINT and self.driving:
            self.cancelled = True
            self._cancel()
        else:
            self._ask(128 + number)

    def _ask(self, code: int) -> None:
        if not self.asked.done():
            self.asked.set_result(code)

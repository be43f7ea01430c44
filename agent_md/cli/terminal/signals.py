"""Installs signal handlers for commands that drive executions or chat."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from agent_md.process.standard_streams import person

__all__ = ["exit_now", "suspendable", "taken_over"]


@contextmanager
def taken_over(numbers: Sequence[signal.Signals], handler: Callable[[int], None]) -> Iterator[None]:
    """Calls `handler` for these signals, at once, as long as this lasts.

    One that was ignored when the command began stays so: that is what `nohup` and the `&` of a script ask for.
    """
    taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda received, _: handler(received)) for number in taken}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def suspendable(leave: Callable[[], None], come_back: Callable[[], None] = lambda: None) -> Iterator[None]:
    """As long as this lasts Ctrl-Z calls `leave` before it stops the process, and `come_back` when the process goes on.

    Where Ctrl-Z does something else, or nothing, it stays so.
    """

    def stop(number: int, _: FrameType | None) -> None:
        leave()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # returns when the process goes on
        signal.signal(number, stop)
        come_back()

    if signal.getsignal(signal.SIGTSTP) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def exit_now(code: int) -> NoReturn:
    """Ends the process without waiting for anything that still runs in it."""
    with suppress(OSError):
        person(sys.stdout).flush()
    os._exit(code)

"""Signals of a command that attends an execution or a chat."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from agent_md.cli.streams import person

__all__ = ["exit_now", "handled", "taken_over"]


@contextmanager
def handled(
    numbers: Sequence[signal.Signals], handler: Callable[[int, asyncio.AbstractEventLoop], None]
) -> Iterator[None]:
    """As `taken_over`, for a running loop, which the handler gets too: it is called also while the loop is blocked."""
    loop = asyncio.get_running_loop()
    with taken_over(numbers, lambda number: handler(number, loop)):
        yield


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


def exit_now(code: int) -> NoReturn:
    """Ends the process without waiting for anything that still runs in it."""
    with suppress(OSError):
        person(sys.stdout).flush()
    os._exit(code)

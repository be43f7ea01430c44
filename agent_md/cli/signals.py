"""Signals of a command that attends an execution."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn

from agent_md.cli.streams import person

__all__ = ["exit_now", "handled"]


@contextmanager
def handled(
    numbers: Sequence[signal.Signals], handler: Callable[[int, asyncio.AbstractEventLoop], None]
) -> Iterator[None]:
    """Calls `handler` for these signals, at once and also while the loop is blocked, as long as this lasts.

    One that was ignored when the command began stays so: that is what `nohup` and the `&` of a script ask for.
    """
    loop = asyncio.get_running_loop()
    taken = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda received, _: handler(received, loop)) for number in taken}
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

"""Waits for user input outside of an execution; signals end the wait cleanly before they take effect."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from agent_md.cli.terminal.signals import taken_over

__all__ = ["run_interruptible"]

T = TypeVar("T")


def run_interruptible(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, run in a loop of its own.

    SIGINT, SIGTERM and SIGHUP cancel it; when it has cleaned up, the signal is raised again for its earlier handler.
    """
    received: list[int] = []

    async def run() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def on_signal(number: int) -> None:
            received.append(number)
            loop.call_soon_threadsafe(task.cancel)

        with taken_over((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), on_signal):
            return await task

    try:
        with asyncio.Runner() as runner:
            result = runner.run(run())
    except asyncio.CancelledError:
        if not received:
            raise
    if received:
        signal.raise_signal(received[0])
        raise KeyboardInterrupt
    return result

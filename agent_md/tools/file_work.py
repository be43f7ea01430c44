"""Runs the work of a file tool on its own thread with a time limit. An abandoned change has no effect later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agent_md.errors import ToolError
from agent_md.tools.base import CutOff
from agent_md.tools.threads import Outcome, ToolThreads

__all__ = ["Commit", "carry_out"]

LIMIT_S = 60.0
"""How long the work of one call may take."""
_GRACE_S = 1.5
"""How long a change that has begun may take to end: it is one call of the system, or two."""


class Commit:
    """Guards the moment in which a change happens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given_up = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The change happens in the block. Raises ToolError if it was given up before."""
        with self._lock:
            if self._given_up:
                raise ToolError("it was given up before anything was done")
            yield

    def give_up(self) -> bool:
        """Whether no change happens from now on; False while one is happening. Never waits."""
        if not self._lock.acquire(blocking=False):
            return False
        self._given_up = True
        self._lock.release()
        return True


async def carry_out(threads: ToolThreads, name: str, work: Callable[[Commit], str], limit: float | None = None) -> str:
    """What the work gives or raises.

    When this is cancelled, or the work takes more than `limit` seconds (60 without one), its thread is left alone; a change
    that is happening is waited for. Raises ToolError then, or CutOff for a change that does not end.
    """
    commit = Commit()
    seconds = LIMIT_S if limit is None else limit
    working = asyncio.ensure_future(threads.on_thread(name, lambda: work(commit)))
    try:
        done, _ = await asyncio.wait({working}, timeout=seconds)
        if not done and not commit.give_up():
            done, _ = await asyncio.wait({working}, timeout=_GRACE_S)
        if done:
            return str(working.result().result())
    except asyncio.CancelledError:
        if not commit.give_up():
            await _wait_uncancelled(working)
        raise
    finally:
        working.cancel()
    if commit.give_up():
        raise ToolError(f"{name} was not done within {seconds:g} s and was given up; nothing was changed")
    raise CutOff(f"{name} did not end within {seconds:g} s")


async def _wait_uncancelled(working: asyncio.Future[Outcome]) -> None:
    """Waits for a change that is happening although the call is cancelled already."""
    waiting = asyncio.ensure_future(asyncio.wait({working}, timeout=_GRACE_S))
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            continue

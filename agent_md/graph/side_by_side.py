"""Which calls of one message run at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["SideBySide"]


class SideBySide:
    """Lets calls run side by side, but a call `alone` whose approval covers files that another one could change."""

    def __init__(self) -> None:
        self._beginning = asyncio.Lock()
        self._running = 0
        self._none_runs = asyncio.Event()
        self._none_runs.set()

    @asynccontextmanager
    async def running(self, *, alone: bool) -> AsyncIterator[None]:
        """The call runs in the block: one that is `alone` when those that run have ended, and then no other begins."""
        if alone:
            async with self._beginning:
                await self._none_runs.wait()
                yield
            return
        async with self._beginning:
            self._running += 1
            self._none_runs.clear()
        try:
            yield
        finally:
            self._running -= 1
            if self._running == 0:
                self._none_runs.set()

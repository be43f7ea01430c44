"""Wakes all who wait in this process when the store changes, whoever changed it, and passes on pieces of messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Iterator, Set

from agent_md.errors import AgentmdError
from agent_md.executions.model import ExecutionId
from agent_md.ports import Store

__all__ = ["Delta", "Hub", "Watch"]

log = logging.getLogger(__name__)

_POLL_S = 0.05
_MOST_DELTAS = 1000
"""Pieces kept for one who does not read; the stored message has them all anyway."""

Delta = tuple[int, str | None]
"""Number of the AI message, and a piece of its text; None = the pieces so far are void."""


class Watch:
    """One who follows one execution. `clear`, then read the store, then `wait`: so nothing is missed."""

    def __init__(self, *, pieces: bool) -> None:
        self.pieces = pieces
        self.deltas: asyncio.Queue[Delta] = asyncio.Queue(_MOST_DELTAS)
        self._news = asyncio.Event()

    def clear(self) -> None:
        self._news.clear()

    def wake(self) -> None:
        self._news.set()

    async def wait(self, timeout: float) -> None:
        """Returns when there is something new since `clear`, or after `timeout` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()


class Hub:
    """One watcher for a process. It is a `ProgressSink` too: the writes of this process need not be polled for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last = store.last_event()
        self._dirty = asyncio.Event()
        self._generation = 0
        self._changed = asyncio.Event()
        self._watches: defaultdict[ExecutionId, set[Watch]] = defaultdict(set)

    @property
    def generation(self) -> int:
        """Counts changes; remember it before reading the store, and no change after that is missed."""
        return self._generation

    async def run(self) -> None:
        """Watches the store until cancelled."""
        version = self._store.version()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._dirty.wait()
            told = self._dirty.is_set()
            self._dirty.clear()
            current = self._store.version()
            if told or current != version:
                version = current
                self._publish()

    async def wait(self, seen: int, timeout: float) -> None:
        """Returns when there was a change after generation `seen`, or after `timeout` seconds."""
        if self._generation != seen:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._changed.wait()

    def stored(self) -> None:
        self._dirty.set()

    def wake(self, execution_ids: Set[ExecutionId]) -> None:
        """Lets those look who follow these executions, for a change that no event tells."""
        for execution_id in execution_ids & self._watches.keys():
            for watch in self._watches[execution_id]:
                watch.wake()
        self._wake_waiting()

    def wake_all(self) -> None:
        """Lets everybody look, whether there is something new or not."""
        for watches in self._watches.values():
            for watch in watches:
                watch.wake()
        self._wake_waiting()

    def _publish(self) -> None:
        try:
            self._last, touched = self._store.touched(self._last)
        except AgentmdError:
            log.exception("the store could not be looked at")
            self.wake_all()
            return
        self.wake(touched)

    def _wake_waiting(self) -> None:
        self._generation += 1
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        self._pass_on(execution_id, (turn, text))

    def restart(self, execution_id: ExecutionId, turn: int) -> None:
        self._pass_on(execution_id, (turn, None))

    def _pass_on(self, execution_id: ExecutionId, delta: Delta) -> None:
        for watch in self._watches.get(execution_id, ()):
            if watch.pieces:
                with contextlib.suppress(asyncio.QueueFull):
                    watch.deltas.put_nowait(delta)
                watch.wake()

    @contextlib.contextmanager
    def watch(self, execution_id: ExecutionId, *, pieces: bool = True) -> Iterator[Watch]:
        """News of one execution from now on, and, unless not wanted, the pieces of its messages if this process drives
        it."""
        watch = Watch(pieces=pieces)
        self._watches[execution_id].add(watch)
        try:
            yield watch
        finally:
            self._watches[execution_id].discard(watch)
            if not self._watches[execution_id]:
                del self._watches[execution_id]

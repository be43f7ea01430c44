"""Wakes all who wait in this process when the store changes, whoever changed it, and passes on pieces of messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator

from agent_md.executions.model import ExecutionId
from agent_md.ports import Store

__all__ = ["Delta", "Hub"]

_POLL_S = 0.05
_MOST_DELTAS = 1000
"""Pieces kept for one who does not read; the stored message has them all anyway."""

Delta = tuple[int, str | None]
"""Number of the AI message, and a piece of its text; None = the pieces so far are void."""


class Hub:
    """One watcher for a process. It is a `ProgressSink` too: the writes of this process need no watching."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._generation = 0
        self._changed = asyncio.Event()
        self._listeners: defaultdict[ExecutionId, set[asyncio.Queue[Delta]]] = defaultdict(set)

    @property
    def generation(self) -> int:
        """Counts changes; remember it before reading the store, and no change after that is missed."""
        return self._generation

    async def run(self) -> None:
        """Watches the store until cancelled."""
        version = self._store.version()
        while True:
            await asyncio.sleep(_POLL_S)
            current = self._store.version()
            if current != version:
                version = current
                self.stored()

    async def wait(self, seen: int, timeout: float) -> None:
        """Returns when there was a change after generation `seen`, or after `timeout` seconds."""
        if self._generation != seen:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), timeout)

    def stored(self) -> None:
        self._generation += 1
        waiting, self._changed = self._changed, asyncio.Event()
        waiting.set()

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        self._pass_on(execution_id, (turn, text))

    def restart(self, execution_id: ExecutionId, turn: int) -> None:
        self._pass_on(execution_id, (turn, None))

    def _pass_on(self, execution_id: ExecutionId, delta: Delta) -> None:
        for queue in self._listeners.get(execution_id, ()):
            with contextlib.suppress(asyncio.QueueFull):
                queue.put_nowait(delta)
        if execution_id in self._listeners:
            self.stored()

    @contextlib.contextmanager
    def deltas(self, execution_id: ExecutionId) -> Iterator[asyncio.Queue[Delta]]:
        """The pieces of messages of an execution that this process drives, from now on."""
        queue: asyncio.Queue[Delta] = asyncio.Queue(_MOST_DELTAS)
        self._listeners[execution_id].add(queue)
        try:
            yield queue
        finally:
            self._listeners[execution_id].discard(queue)
            if not self._listeners[execution_id]:
                del self._listeners[execution_id]

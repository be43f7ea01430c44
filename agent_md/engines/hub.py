"""Wakes waiting tasks of this process when the store changes, and distributes streamed pieces of messages."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict, deque
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from agent_md.errors import AgentmdError
from agent_md.executions.ids import ExecutionId
from agent_md.ports.store import Store

__all__ = ["Hub", "PartialText", "Watch"]

log = logging.getLogger(__name__)

_POLL_S = 0.05
_MOST_TEXTS = 8
"""Texts kept for one who does not read; the stored messages have them all anyway."""


@dataclass(eq=False, slots=True)
class PartialText:
    """What has come of AI message `turn` since the model was asked: a new one when it is asked again."""

    turn: int
    retry: tuple[int, int] | None = None
    """Which attempt it is, of how many, when it is not the first."""
    pieces: list[str] = field(default_factory=list)


class Watch:
    """One who follows executions. `clear`, then read the store, then `wait`: so nothing is missed."""

    def __init__(self, *, pieces: bool) -> None:
        self.pieces = pieces
        self.texts: dict[ExecutionId, deque[PartialText]] = {}
        """Of each execution the texts that are under way or came since, the newest last. Whoever is done with one takes
        it out."""
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
        self._of_everything: set[Watch] = set()
        self._texts: dict[ExecutionId, PartialText] = {}

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
        for watch in self._of_everything:
            watch.wake()

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        current = self._texts.get(execution_id)
        if current is None or current.turn != turn:
            current = self._begin_text(execution_id, turn)
        current.pieces.append(text)
        self._wake_readers(execution_id)

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        self._begin_text(execution_id, turn, (attempt, attempts))
        self._wake_readers(execution_id)

    def forget_text(self, execution_id: ExecutionId) -> None:
        """The execution is not driven here any more, so no message of it is under way."""
        self._texts.pop(execution_id, None)

    def _begin_text(self, execution_id: ExecutionId, turn: int, retry: tuple[int, int] | None = None) -> PartialText:
        begun = self._texts[execution_id] = PartialText(turn, retry)
        for watch in self._watches.get(execution_id, ()):
            if watch.pieces:
                watch.texts[execution_id].append(begun)
        return begun

    def _wake_readers(self, execution_id: ExecutionId) -> None:
        for watch in self._watches.get(execution_id, ()):
            if watch.pieces:
                watch.wake()

    @contextlib.contextmanager
    def watch(
        self, execution_id: ExecutionId | None = None, *, pieces: bool = True, everything: bool = False
    ) -> Iterator[Watch]:
        """News of one execution from now on, or of `everything` that is stored; and, unless not wanted, the texts of the
        messages that this process is getting for the executions that are followed."""
        watch = Watch(pieces=pieces)
        if everything:
            self._of_everything.add(watch)
        if execution_id is not None:
            self.follow(watch, execution_id)
        try:
            yield watch
        finally:
            self._of_everything.discard(watch)
            for followed in watch.texts:
                self._leave(watch, followed)

    def follow(self, watch: Watch, execution_id: ExecutionId) -> None:
        """Lets a watch have the news of one more execution; the text that is under way now is its first."""
        current = self._texts.get(execution_id)
        watch.texts[execution_id] = deque([] if current is None else [current], _MOST_TEXTS)
        self._watches[execution_id].add(watch)

    def leave(self, watch: Watch, execution_id: ExecutionId) -> None:
        """Ends `follow`."""
        del watch.texts[execution_id]
        self._leave(watch, execution_id)

    def _leave(self, watch: Watch, execution_id: ExecutionId) -> None:
        self._watches[execution_id].discard(watch)
        if not self._watches[execution_id]:
            del self._watches[execution_id]

"""Removes old data: checkpoints of ended executions, skipped firings and, if configured, executions.

The checkpoints are on a file of their own, so no transaction spans them and the store. None is needed: an execution that
has ended is never driven again, and one that has not gets a new thread in the store before its old one is removed. What a
crash leaves is a thread that is no execution's, which the next sweep finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.thread_names import owner_of, thread_id
from agent_md.ports.clock import Clock
from agent_md.ports.store import Store
from agent_md.stores.checkpoint_cleanup import ThreadFile

__all__ = [
    "SKIPPED_KEPT",
    "AgentThreads",
    "Purge",
    "ThreadStats",
    "Threads",
    "remove_executions",
    "thin_firings",
]

Rest = Callable[[float], bool | None]

SKIPPED_KEPT = 1000
"""So many skipped firings of each agent stay."""

_DAY_S = 86_400.0
_BATCH = 200
"""So many executions are looked at, or get another thread, in one go."""


@dataclass(frozen=True, slots=True)
class AgentThreads:
    """What one agent has in the file; `agent` None: threads of no execution. `bytes` are those of its checkpoints."""

    agent: str | None
    threads: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ThreadStats:
    """The file, `bytes` of it on the disk, and what the agents have in it, sorted by their names."""

    bytes: int
    agents: tuple[AgentThreads, ...]

    @property
    def threads(self) -> int:
        return sum(item.threads for item in self.agents)


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge did: how many threads it removed and kept, which executions it left because they are being driven, and
    the bytes of the file on the disk."""

    removed: int
    kept: int
    driven: tuple[ExecutionId, ...]
    bytes_before: int
    bytes_after: int


class Threads:
    """The threads of a store's executions, seen together with their file."""

    def __init__(self, store: Store, file: ThreadFile, clock: Clock) -> None:
        self._store = store
        self._file = file
        self._clock = clock

    def stats(self, agents: Collection[str] | None = None) -> ThreadStats:
        """What there is, of all agents or of those with these names."""
        sizes = self._file.sizes()
        found: dict[str | None, list[int]] = {}
        for owned in self._owned(list(sizes)):
            for thread, execution in owned:
                name = None if execution is None else execution.agent
                if agents is None or name in agents:
                    found.setdefault(name, []).append(sizes[thread])
        rows = [AgentThreads(name, len(of_agent), sum(of_agent)) for name, of_agent in found.items()]
        return ThreadStats(self._file.size(), tuple(sorted(rows, key=lambda row: (row.agent is None, row.agent or ""))))

    def purge(self, days: int | None, *, agents: Collection[str] | None = None, force: bool = False) -> Purge:
        """Removes the threads of executions that ended at least `days` ago (None: of none), but of the latest one
        without a session of each agent, and those that are no execution's. With `force` all, but of what is driven.
        `agents`: only of executions of agents with these names."""
        before = self._file.size()
        threads = self._file.threads()
        limit = None if days is None else self._clock() - days * _DAY_S
        latest = self._store.retention.latest()
        if force:
            self._store.settle_deaths()
        removed = kept = 0
        driven: list[ExecutionId] = []
        for owned in self._owned(threads):
            if self._file.stopped:
                break
            wanted = [(thread, x) for thread, x in owned if agents is None or (x is not None and x.agent in agents)]
            going = [thread for thread, x in wanted if x is None or _is_over(x, limit, latest, force=force)]
            if force:
                active = {x.id: thread for thread, x in wanted if x is not None and not x.status.final}
                given_up = self._store.retention.renew_threads(active.keys())
                going += [active[execution_id] for execution_id in given_up]
                driven += sorted(active.keys() - given_up)
            self._file.remove(going)
            removed += len(going)
            kept += len(wanted) - len(going)
        self._file.give_back()
        return Purge(removed, kept, tuple(driven), before, self._file.size())

    def _owned(self, threads: Sequence[str]) -> Iterator[list[tuple[str, Execution | None]]]:
        """The threads with the executions that use them, some at a time, in the order of these. Whoever reads the store
        after the names were read finds the execution of each: it is there before its thread."""
        by_owner = sorted(threads, key=lambda thread: owner_of(thread) or 0)
        for start in range(0, len(by_owner), _BATCH):
            names = by_owner[start : start + _BATCH]
            owners = {owner for owner in map(owner_of, names) if owner is not None}
            found = {thread_id(x): x for x in self._store.executions(ids=owners)}
            yield [(name, found.get(name)) for name in names]


def remove_executions(store: Store, days: int, clock: Clock, rest: Rest = time.sleep) -> int:
    """Removes executions that ended at least `days` ago and that nothing needs, and gives their room back; gives how many.
    `rest` is called with seconds between two transactions; when it gives True there will be no other."""
    return _count(_executions(store, clock() - days * _DAY_S), store, rest)


def thin_firings(store: Store, rest: Rest = time.sleep) -> int:
    """Removes skipped firings but the newest of each agent, and gives their room back; gives how many. `rest` as in
    `remove_executions`."""
    return _count(_skipped_firings(store), store, rest)


def _executions(store: Store, ended_before: float) -> Iterator[int]:
    left = store.retention.removable(ended_before)
    while left.ids:
        removed, left = store.retention.remove_some(left)
        yield len(removed)


def _skipped_firings(store: Store) -> Iterator[int]:
    while removed := store.retention.remove_skipped_firings(SKIPPED_KEPT):
        yield removed


def _count(removing: Iterator[int], store: Store, rest: Rest) -> int:
    """What was removed in one transaction after the other, with a rest after each."""
    count = 0
    begun = time.monotonic()
    for removed in chain(removing, _room_given_back(store)):
        count += removed
        if rest(time.monotonic() - begun):
            break
        begun = time.monotonic()
    return count


def _room_given_back(store: Store) -> Iterator[int]:
    while store.retention.give_back_some():
        yield 0


def _is_over(execution: Execution, limit: float | None, latest: Collection[ExecutionId], *, force: bool) -> bool:
    """Whether nobody will look at the thread of an ended execution any more, or is to."""
    if not execution.status.final or force:
        return execution.status.final
    is_old = limit is not None and execution.finished_at is not None and execution.finished_at <= limit
    return is_old and execution.id not in latest

"""Every implementation of the store, opened for the same suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_md.ports.journal import Journal
from agent_md.ports.store import Store
from agent_md.stores.sqlite.store import SqliteStore
from tests.support.clock import ManualClock
from tests.support.memory_store import MemoryStore
from tests.support.scenes import W1, W2, begin, journal_of
from tests.support.workers import FakeWorkers


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def workers() -> FakeWorkers:
    return FakeWorkers(W1, W2)


@pytest.fixture(params=["memory", "sqlite"])
def connect(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, workers: FakeWorkers
) -> Iterator[Callable[[], Store]]:
    """Opens the same storage once more, as another process would; the memory of one process has one opening."""
    opened: list[Store] = []
    shared = MemoryStore(workers=workers, clock=clock)

    def connect_once() -> Store:
        if request.param == "memory":
            return shared
        opened.append(SqliteStore(tmp_path / "agentmd.db", workers=workers, clock=clock))
        return opened[-1]

    yield connect_once
    for store in opened:
        store.close()


@pytest.fixture
def store(connect: Callable[[], Store]) -> Store:
    return connect()


@pytest.fixture
def journal(store: Store) -> Journal:
    """Of a fresh execution that W1 drives."""
    return journal_of(store, begin(store))

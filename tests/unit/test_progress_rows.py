"""What the progress of an execution says, without a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agent_md.cli.drive.progress import Progress
from agent_md.cli.terminal.live_rows import LiveArea
from agent_md.cli.views.screen import Screen
from agent_md.executions.execution import Execution
from agent_md.executions.positions import Position
from agent_md.ports.store import Store
from tests.support.memory_store import MemoryStore
from tests.support.rendering import lines_of
from tests.support.scenes import W1, begin, finish_call, journal_of, proposal, record, succeed
from tests.support.workers import FakeWorkers

if TYPE_CHECKING:
    from rich.console import RenderableType


class Recorder(LiveArea):
    """A live area of a terminal with 40 columns that nobody sees."""

    def __init__(self) -> None:
        super().__init__(None, Screen(40, 12))
        self.rows: list[str] = []

    @property
    def enabled(self) -> bool:
        return True

    def show(self, *items: RenderableType) -> None:
        self.rows = lines_of(*items, width=40)

    def withdraw(self) -> None:
        self.rows = []


class Watch:
    """A progress whose clock a test sets; `after` gives the rows that many seconds later, without the spinner."""

    def __init__(self, store: Store, execution: Execution) -> None:
        self.live = Recorder()
        self.now = 0.0
        self._store, self._id, self._seen = store, execution.id, 0
        self.progress = Progress(self.live, store, execution, monotonic=lambda: self.now)

    def saw(self) -> None:
        events = self._store.events(self._id, after=self._seen)
        self._seen = events[-1].seq
        self.progress.saw(events)

    def after(self, seconds: float) -> list[str]:
        self.progress.tick()
        self.now += seconds
        self.progress.tick()
        return [row[2:] if row[0] in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" else row for row in self.live.rows]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(workers=FakeWorkers(W1))


def test_what_is_short_shows_nothing(store: MemoryStore) -> None:
    watch = Watch(store, begin(store))
    assert watch.after(9) == []
    watch.progress.driving()
    assert watch.after(0.2) == []
    assert watch.after(0.2) == ["writer · thinking…"]
    assert watch.after(2) == ["writer · thinking… 2 s"]
    assert watch.after(120) == ["writer · thinking… 2 min 2 s"]


def test_calls_that_run_are_named(store: MemoryStore) -> None:
    execution = begin(store)
    journal, watch = journal_of(store, execution), Watch(store, execution)
    watch.progress.driving()
    record(journal, 0, [proposal(0, 0), proposal(0, 1, tool="evil\x1b[b]"), proposal(0, 2)])
    watch.saw()
    assert watch.after(1) == ["writer · working… 1 s"]
    journal.start_call(Position(0, 0), {}, None)
    journal.start_call(Position(0, 1), {}, None)
    assert watch.after(5) == [r"writer · file_read, evil\x1b[b]… 5 s"]
    finish_call(journal, Position(0, 0))
    watch.saw()
    assert watch.after(3) == [r"writer · evil\x1b[b]… 3 s"]
    for index in (1, 2):
        journal.start_call(Position(0, index), {}, None)
        finish_call(journal, Position(0, index))
    watch.saw()
    assert watch.after(1) == ["writer · thinking… 1 s"]


def test_a_text_stands_above_until_it_is_stored(store: MemoryStore) -> None:
    execution = begin(store)
    journal, watch = journal_of(store, execution), Watch(store, execution)
    watch.progress.driving()
    watch.progress.delta("\n ")
    assert watch.after(0) == []
    watch.progress.delta("Hello")
    watch.progress.delta(" there.\nOnce more.")
    first, *rest = watch.after(0)
    assert first.endswith("writer 💬 Hello there.")
    assert rest == ["  Once more.", "writer · writing…"]
    record(journal)
    watch.saw()
    assert watch.after(0)[0] == first  # the final answer is not printed yet
    succeed(journal)
    watch.saw()
    assert watch.after(0.4) == ["writer · thinking…"]


def test_pieces_that_are_void_are_taken_back(store: MemoryStore) -> None:
    watch = Watch(store, begin(store))
    watch.progress.driving()
    watch.progress.delta("Wrong")
    assert len(watch.after(0)) == 2
    watch.progress.restart(2, 4)
    assert watch.after(1) == ["writer · retrying 2/4… 1 s"]


@pytest.mark.parametrize(("worker", "text"), [(None, "waiting for the server"), (W1, "thinking")])
def test_following(store: MemoryStore, worker: object, text: str) -> None:
    watch = Watch(store, begin(store, worker=W1 if worker else None))
    watch.progress.following()
    assert watch.after(1) == [f"writer · {text}… 1 s"]


def test_nothing_stands_while_somebody_is_asked(store: MemoryStore) -> None:
    watch = Watch(store, begin(store))
    watch.progress.driving()
    assert watch.after(1)
    watch.progress.pause()
    assert watch.live.rows == []
    assert watch.after(9) == []
    watch.progress.driving()
    assert watch.after(1) == ["writer · thinking… 1 s"]

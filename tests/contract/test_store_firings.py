"""Any store: a firing is there once, is decided once, and starts its execution in the transaction that decides it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_md.errors import ConversationWaiting, FiringDecided
from agent_md.executions.execution import Execution, NewExecution
from agent_md.executions.firings import Firing, FiringState, NewFiring, TriggerRecord
from agent_md.executions.states import TriggerKind
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import SPEC, human, parked

SCHEDULE = TriggerKind.SCHEDULE


def new(key: str = "1", agent: str = "writer", reason: str | None = None) -> NewFiring:
    return NewFiring(agent=agent, trigger=SCHEDULE, key=key, due_at=5.0, message=f"at {key}", reason=reason)


def start(store: Store, firing: Firing) -> Execution:
    created = NewExecution(firing.agent, firing.trigger, (human("Go"),))
    return store.create(created, spec=SPEC, spec_digest="d", skip_if_waiting=False, worker=None, firing=firing.id)


def test_a_trigger_begins_when_it_is_first_followed(store: Store, clock: ManualClock) -> None:
    first = store.firings.follow("Writer", SCHEDULE, "a")
    assert first == TriggerRecord(clock.now, clock.now)
    clock.advance(10)
    assert store.firings.follow("writer", SCHEDULE, "a") == first
    assert store.firings.followed("WRITER", SCHEDULE, "a") == first
    assert store.firings.followed("writer", SCHEDULE, "b") is None
    assert store.firings.followed("writer", TriggerKind.WATCH, "a") is None
    assert store.firings.follow("writer", SCHEDULE, "b") == TriggerRecord(clock.now, clock.now)


def test_its_firings_are_added_with_the_step_of_its_position(store: Store) -> None:
    at = store.firings.follow("writer", SCHEDULE, "a").looked_at
    assert store.firings.advance("writer", SCHEDULE, after=at, upto=at + 5, new=[new("1"), new("2", reason="missed")])
    assert not store.firings.advance("writer", SCHEDULE, after=at, upto=at + 6, new=[new("3")])
    assert store.firings.follow("writer", SCHEDULE, "a") == TriggerRecord(at, at + 5)
    assert [(f.key, f.state, f.reason) for f in store.firings.listed()] == [
        ("2", FiringState.SKIPPED, "missed"),
        ("1", FiringState.DUE, None),
    ]


def test_one_is_there_once_by_agent_trigger_and_key(store: Store) -> None:
    first = store.firings.add(new("1"))
    assert store.firings.add(new("1", agent="WRITER", reason="late")) == first
    assert store.firings.add(new("2")).id > first.id
    assert store.firings.add(new("1", agent="other")).agent == "other"
    assert [firing.key for firing in store.firings.due()] == ["1", "2", "1"]
    assert store.firings.listed(agent="Writer", limit=1)[0].key == "2"
    assert store.firings.listed(agent="writer", offset=1) == [first]
    assert (first.message, first.due_at, first.decided_at) == ("at 1", 5.0, None)


def test_its_execution_is_created_with_it_once(store: Store, clock: ManualClock) -> None:
    firing = store.firings.add(new())
    created = start(store, firing)
    (started,) = store.firings.listed(states=[FiringState.STARTED])
    assert (started.execution_id, started.decided_at) == (created.id, clock.now)
    assert store.firings.due() == []
    with pytest.raises(FiringDecided):
        start(store, firing)
    assert not store.firings.skip(firing.id, "late")
    assert len(store.executions()) == 1


def test_one_that_is_skipped_is_never_started(store: Store) -> None:
    firing = store.firings.add(new())
    assert store.firings.skip(firing.id, "paused")
    assert not store.firings.skip(firing.id, "again")
    with pytest.raises(FiringDecided):
        start(store, firing)
    assert [found.reason for found in store.firings.listed()] == ["paused"]
    assert store.executions() == []


def test_what_refuses_its_execution_is_told_by_its_own_row(store: Store) -> None:
    parked(store, agent="writer")
    firing = store.firings.add(new())
    refused = NewExecution(firing.agent, firing.trigger, (human("Go"),))
    with pytest.raises(ConversationWaiting):
        store.create(refused, spec=SPEC, spec_digest="d", skip_if_waiting=True, worker=None, firing=firing.id)
    assert store.refusals() == []
    assert store.firings.due() == [firing]


def test_of_many_that_add_and_start_it_at_once_one_does(connect: Callable[[], Store]) -> None:
    stores = [connect() for _ in range(4)]

    def whole(store: Store) -> bool:
        try:
            start(store, store.firings.add(new()))
        except FiringDecided:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(whole, stores)) == [False, False, False, True]
    assert len(stores[0].executions()) == 1


def test_pauses(store: Store, clock: ManualClock) -> None:
    store.firings.pause("Writer", "cli:ann")
    store.firings.pause("writer", "cli:bob")
    assert [(pause.agent, pause.by, pause.at) for pause in store.firings.pauses()] == [("writer", "cli:ann", clock.now)]
    store.firings.pause(None, "api")
    assert [pause.agent for pause in store.firings.pauses()] == [None, "writer"]
    store.firings.resume("WRITER")
    assert [pause.agent for pause in store.firings.pauses()] == [None]
    store.firings.pause("writer", "cli:ann")
    store.firings.resume(None)
    assert store.firings.pauses() == []


def test_of_the_skipped_ones_the_newest_of_each_agent_can_be_kept(store: Store) -> None:
    at = store.firings.follow("writer", SCHEDULE, "a").looked_at
    started = store.firings.add(new("started"))
    start(store, started)
    due = store.firings.add(new("due"))
    skipped = [new(f"{number:02}", reason="overlapping") for number in range(12)]
    assert store.firings.advance("writer", SCHEDULE, after=at, upto=at + 12, new=skipped)
    other = store.firings.add(new("other", agent="reader", reason="paused"))
    newest = max(firing.id for firing in store.firings.listed())
    removed = 0
    while some := store.retention.remove_skipped_firings(2):
        removed += some
    assert removed == 10
    assert [firing.key for firing in store.firings.listed(agent="Writer")] == ["11", "10", "due", "started"]
    assert store.firings.listed(agent="reader") == [other]
    assert [firing.id for firing in store.firings.due()] == [due.id]
    assert store.firings.follow("writer", SCHEDULE, "a") == TriggerRecord(at, at + 12)
    assert store.firings.add(new("next")).id > newest
    assert start(store, due).id == 2

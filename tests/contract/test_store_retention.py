"""Any store: which executions are the latest, and when an execution gets another thread."""

from __future__ import annotations

from typing import Any

import pytest

from agent_md.errors import IdempotencyMismatch, UnknownExecution, UnknownRequest
from agent_md.executions.deliveries import HookEvent, NewDelivery
from agent_md.executions.execution import Execution, NewExecution, Usage
from agent_md.executions.firings import FiringState, NewFiring
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import TriggerKind
from agent_md.executions.thread_names import owner_of, thread_id
from agent_md.ports.store import Idempotency, Store
from tests.support.clock import ManualClock
from tests.support.scenes import SPEC, W1, W2, approve, begin, human, journal_of, parked, record, succeed


def test_the_latest_of_each_agent_has_neither_session_nor_parent(store: Store) -> None:
    begin(store, agent="other")
    begin(store)
    latest = begin(store)
    begin(store, session_id="s")
    begin(store, parent_id=latest.id)
    other = begin(store, agent="other")
    assert store.retention.latest() == {latest.id, other.id}


def test_what_waits_or_is_queued_gets_another_thread(store: Store) -> None:
    waiting, _ = parked(store, agent="a")
    queued = begin(store, agent="b", worker=None)
    before = {x.id: thread_id(x) for x in map(store.execution, (waiting.id, queued.id))}
    assert store.retention.renew_threads(before.keys()) == before.keys()
    after = {x.id: thread_id(x) for x in map(store.execution, before)}
    assert not set(before.values()) & set(after.values())
    assert {owner_of(thread) for thread in (*before.values(), *after.values())} == before.keys()
    assert store.retention.renew_threads([waiting.id]) == {waiting.id}
    assert thread_id(store.execution(waiting.id)) not in (before[waiting.id], after[waiting.id])


def test_what_is_driven_or_has_ended_keeps_its_thread(store: Store) -> None:
    driven = begin(store)
    ended = begin(store)
    succeed(journal_of(store, ended))
    unknown = ExecutionId(99)
    assert store.retention.renew_threads([driven.id, ended.id, unknown]) == frozenset()
    assert (store.execution(driven.id).thread, store.execution(ended.id).thread) == (0, 0)


def test_the_thread_stays_the_same_for_whoever_drives_it_next(store: Store) -> None:
    waiting, (request_id,) = parked(store)
    store.retention.renew_threads([waiting.id])
    renewed = thread_id(store.execution(waiting.id))
    store.record_answers([approve(request_id)], by="cli:ann", claim_for=W2)
    assert thread_id(store.execution(waiting.id)) == renewed
    assert store.retention.renew_threads([waiting.id]) == frozenset()


def test_names_that_are_no_threads_of_ours_have_no_owner() -> None:
    assert [owner_of(name) for name in ("", "7", "x@1.0", "-1@1.0", "²@1.0", "9" * 30 + "@1.0")] == [None] * 6


def done(store: Store, **options: Any) -> Execution:
    """An execution that has ended, after one answer that cost half a dollar."""
    execution = begin(store, **options)
    journal = journal_of(store, execution)
    record(journal, usage=Usage(10, 1, 0.5))
    succeed(journal)
    return store.execution(execution.id)


def sweep(store: Store, ended_before: float) -> set[ExecutionId]:
    left = store.retention.removable(ended_before)
    removed: list[ExecutionId] = []
    while left.ids:
        some, left = store.retention.remove_some(left)
        removed += some
    while store.retention.give_back_some():
        pass
    assert len(removed) == len(set(removed))
    return set(removed)


def test_old_executions_go_and_all_that_was_theirs(store: Store, clock: ManualClock) -> None:
    old = [done(store).id for _ in range(30)]
    clock.advance(100)
    ended_before = clock.now - 50
    young, latest = done(store), done(store)
    assert sweep(store, ended_before) == set(old)
    assert [x.id for x in store.executions()] == [latest.id, young.id]
    for gone in (old[0], old[-1]):
        with pytest.raises(UnknownExecution, match="removed"):
            store.execution(gone)
        assert store.events(gone) == store.calls(gone) == store.requests(gone) == []
    assert store.events(young.id)
    assert done(store).id == latest.id + 1
    assert sweep(store, ended_before) == set()


def test_what_is_not_over_or_the_latest_stays(store: Store, clock: ManualClock) -> None:
    waiting, _ = parked(store, agent="a")
    queued = begin(store, agent="b", worker=None)
    driven = begin(store, agent="c")
    latest = done(store, agent="d")
    for agent in "abc":
        begin(store, agent=agent)
    clock.advance(100)
    assert sweep(store, clock.now) == set()
    assert {waiting.id, queued.id, driven.id, latest.id} <= {x.id for x in store.executions()}


def test_the_turns_of_a_session_stay_as_long_as_it_lives(store: Store, clock: ManualClock) -> None:
    turns = {done(store, session_id="s").id, done(store, session_id="s").id}
    clock.advance(100)
    assert sweep(store, clock.now) == set()
    assert len(store.sessions.messages("writer", "s")) == 4
    store.sessions.delete("writer", "s", by="ann")
    again = done(store, session_id="s")
    assert sweep(store, clock.now) == turns
    assert store.execution(again.id)
    assert len(store.sessions.messages("writer", "s")) == 2


def test_children_go_with_their_parent_when_all_of_them_are_old(store: Store, clock: ManualClock) -> None:
    parent, other = done(store), done(store)
    child = done(store, parent_id=parent.id)
    grandchild = done(store, parent_id=child.id)
    clock.advance(100)
    ended_before = clock.now - 50
    done(store, parent_id=other.id)
    done(store)
    assert sweep(store, ended_before) == {parent.id, child.id, grandchild.id}


def test_what_a_webhook_is_still_to_tell_of_stays(store: Store, clock: ManualClock) -> None:
    told, free = done(store), done(store)
    done(store)
    delivery = NewDelivery(
        event_id="e1",
        event=HookEvent.COMPLETED,
        execution_id=told.id,
        target="t",
        lane="lane",
        event_at=1.0,
        due_at=1.0,
    )
    assert store.outbox.enqueue([delivery], after=store.outbox.cursor(), upto=store.last_event())
    assert sweep(store, clock.now) == {free.id}
    store.outbox.finish("e1")
    assert sweep(store, clock.now) == {told.id}


def test_its_cost_still_counts(store: Store, clock: ManualClock) -> None:
    since = clock.now
    done(store), done(store)
    clock.advance(10)
    before = store.spent(since, "writer")
    assert sweep(store, clock.now) != set()
    assert store.spent(since, "writer") == before == 1.0
    assert store.spent(clock.now, "writer") == 0.0


def test_its_idempotency_key_stays_taken(store: Store, clock: ManualClock) -> None:
    def create() -> Execution:
        new = NewExecution("writer", TriggerKind.API, (human("Hello"),))
        key = Idempotency("key", "body")
        return store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=False, worker=W1, idempotency=key)

    first = create()
    succeed(journal_of(store, first))
    done(store)
    assert sweep(store, clock.now) == {first.id}
    with pytest.raises(IdempotencyMismatch, match=f"execution {first.id}.* removed"):
        create()


def test_its_firing_stays_decided(store: Store, clock: ManualClock) -> None:
    fired = NewFiring(agent="writer", trigger=TriggerKind.SCHEDULE, key="slot", due_at=1.0)
    firing = store.firings.add(fired)
    new = NewExecution("writer", TriggerKind.SCHEDULE, (human("Go"),))
    started = store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=False, worker=W1, firing=firing.id)
    succeed(journal_of(store, started))
    done(store)
    assert sweep(store, clock.now) == {started.id}
    (kept,) = store.firings.listed()
    assert (kept.state, kept.execution_id) == (FiringState.STARTED, None)
    assert kept.reason == f"its execution {started.id} was removed"
    assert store.firings.add(fired) == kept
    assert store.firings.due() == []


def test_its_requests_are_unknown(store: Store, clock: ManualClock) -> None:
    waiting, (request_id,) = parked(store)
    receipt = store.record_answers([approve(request_id)], by="cli:ann", claim_for=W1)
    assert receipt.claim is not None
    succeed(store.journal(receipt.claim))
    done(store)
    assert sweep(store, clock.now) == {waiting.id}
    with pytest.raises(UnknownRequest):
        store.request(request_id)

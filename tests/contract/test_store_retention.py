"""Any store: which executions are the latest, and when an execution gets another thread."""

from __future__ import annotations

from agent_md.executions.model import ExecutionId
from agent_md.executions.threads import owner_of, thread_id
from agent_md.ports import Store
from tests.support.scenes import W2, approve, begin, journal_of, parked, succeed


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

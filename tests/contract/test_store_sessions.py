"""Any store: sessions, and the conversation that a new execution begins with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from agent_md.errors import (
    ConversationBusy,
    ConversationWaiting,
    SessionExists,
    TooManySessions,
    UnknownRequest,
    UnknownSession,
)
from agent_md.executions.execution import Execution, NewExecution
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.sessions import SessionStatus
from agent_md.executions.states import CallOutcome, CallState, Status, TriggerKind
from agent_md.ports.journal import ExecutionEnd
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    SPEC,
    W1,
    abort,
    approve,
    finish_call,
    human,
    journal_of,
    parked,
    proposal,
    record,
    succeed,
)

WRITER = NewExecution("writer", TriggerKind.CHAT, (human("?"),), "s", history=100)


def start(store: Store, text: str = "Hello", *, skip: bool = False, **fields: Any) -> Execution:
    seed = ({"type": "system", "data": {"content": "Be brief.", "id": "system"}}, human(text))
    new = replace(WRITER, **{"seed": seed, **fields})
    return store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=skip, worker=W1)


def turn(store: Store, text: str, **fields: Any) -> Execution:
    """A turn that ended well, with one AI message."""
    execution = start(store, text, **fields)
    journal = journal_of(store, execution)
    record(journal)
    succeed(journal)
    return execution


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [message["data"]["content"] for message in messages]


def seen(store: Store, execution: Execution) -> list[str]:
    """What an execution begins with, without its system message."""
    seed = store.seed(execution.id)
    assert seed[0]["type"] == "system"
    return texts(seed[1:])


def total(store: Store) -> int:
    """The messages of the one session of the writer."""
    assert store.sessions.totals() == store.sessions.totals(agent="writer")
    (count,) = store.sessions.totals(agent="writer").values()
    return count


# Conversations


def test_a_turn_begins_with_those_before_it(store: Store) -> None:
    turn(store, "one")
    turn(store, "two")
    assert seen(store, start(store, "three")) == ["one", "turn 0", "two", "turn 0", "three"]


def test_the_window_is_the_last_messages_cut_forward_to_a_human_one(store: Store) -> None:
    for number in range(5):
        turn(store, str(number))
    windows = {size: seen(store, start(store, "?", history=size, session_id="s"))[:-1] for size in (0, 1, 2, 3, 4)}
    assert windows == {0: [], 1: [], 2: ["4", "turn 0"], 3: ["4", "turn 0"], 4: ["3", "turn 0", "4", "turn 0"]}


def test_conversations_do_not_mix(store: Store) -> None:
    turn(store, "mine")
    turn(store, "of another session", session_id="other")
    turn(store, "without session", session_id=None)
    turn(store, "of another agent", agent="reader")
    child = start(store, "a child's", parent_id=ExecutionId(1))
    assert seen(store, child) == ["a child's"]
    succeed(journal_of(store, child))
    assert seen(store, start(store, "next")) == ["mine", "turn 0", "next"]
    assert seen(store, start(store, "next", session_id=None)) == ["without session", "turn 0", "next"]


@pytest.mark.parametrize("step", [1, 0, -3600], ids=["forward", "still", "set back"])
def test_turns_come_in_the_order_of_their_ends_whatever_the_clock_says(
    store: Store, clock: ManualClock, step: float
) -> None:
    slow, fast = start(store, "slow"), start(store, "fast")
    for execution in (fast, slow):
        clock.advance(step)
        record(journal_of(store, execution))
        succeed(journal_of(store, execution))
    told = ["fast", "turn 0", "slow", "turn 0"]
    assert texts(store.sessions.messages("writer", "s"))[-4:] == told
    assert seen(store, start(store, "next")) == [*told, "next"]
    assert seen(store, start(store, "next", history=2)) == ["slow", "turn 0", "next"]


@pytest.mark.parametrize("step", [1, -3600], ids=["forward", "set back"])
def test_what_a_session_came_to_is_what_the_turn_that_ended_last_did(
    store: Store, clock: ManualClock, step: float
) -> None:
    slow, fast = start(store, "slow"), start(store, "fast")
    clock.advance(step)
    abort(journal_of(store, fast))
    clock.advance(step)
    succeed(journal_of(store, slow))
    session = store.sessions.get("writer", "s")
    assert (session.status, session.turn) == (SessionStatus.IDLE, store.execution(slow.id))


def test_results_stand_in_the_order_of_their_calls(store: Store) -> None:
    execution = start(store, "do both")
    journal = journal_of(store, execution)
    record(journal, calls=[proposal(0, 0), proposal(0, 1)])
    finish_call(journal, Position(0, 1), "second")
    finish_call(journal, Position(0, 0), "first")
    record(journal, turn=1)
    succeed(journal)
    assert texts(store.sessions.messages("writer", "s")) == ["do both", "turn 0", "first", "second", "turn 1"]


def test_a_turn_that_failed_before_any_call_leaves_the_conversation_as_it_was(store: Store) -> None:
    turn(store, "one")
    abort(journal_of(store, start(store, "stopped")))
    assert total(store) == 2
    assert texts(store.sessions.messages("writer", "s")) == ["one", "turn 0"]
    assert seen(store, start(store, "next")) == ["one", "turn 0", "next"]


@pytest.mark.parametrize(
    ("outcome", "stays"),
    [
        (CallOutcome.DONE, True),
        (CallOutcome.FAILED, True),
        (CallOutcome.UNKNOWN, True),
        (CallOutcome.DENIED, False),
        (CallOutcome.REFUSED, False),
        (CallOutcome.NOT_RUN, False),
    ],
)
def test_a_failed_turn_stays_if_one_of_its_calls_had_started(store: Store, outcome: CallOutcome, stays: bool) -> None:
    journal = journal_of(store, start(store, "delete it"))
    record(journal, calls=[proposal()])
    closing = (Position(0, 0), CallState.FINISHED, outcome, "closed")
    journal.finish(ExecutionEnd(Status.ERROR, error="no model", closings=(closing,)))
    expected = ["delete it", "turn 0", "closed"] if stays else []
    assert texts(store.sessions.messages("writer", "s")) == expected
    assert seen(store, start(store, "next")) == [*expected, "next"]


def test_a_turn_under_way_is_in_the_conversation_and_in_no_window(store: Store) -> None:
    record(journal_of(store, start(store, "first")))
    assert texts(store.sessions.messages("writer", "s")) == ["first", "turn 0"]
    assert seen(store, start(store, "second")) == ["second"]


def test_the_events_of_a_session_are_those_of_its_turns_in_order(store: Store) -> None:
    begin = start(store, "first")
    turn(store, "of another session", session_id="other")
    other = start(store, "beside it")
    for execution in (other, begin):
        record(journal_of(store, execution))
        succeed(journal_of(store, execution))
    start(store, "a child's", parent_id=begin.id)
    expected = sorted([*store.events(begin.id), *store.events(other.id)], key=lambda event: event.seq)
    assert store.sessions.events("writer", "s") == expected
    assert store.sessions.events("writer", "s", after=expected[2].seq, limit=2) == expected[3:5]
    assert store.sessions.events("writer", "s", after=expected[-1].seq) == []
    store.sessions.delete("writer", "s", by="ann")
    with pytest.raises(UnknownSession):
        store.sessions.events("writer", "s")
    again = start(store, "again")
    assert store.sessions.events("writer", "s") == store.events(again.id)


# Sessions


def test_a_session_is_made_by_its_first_turn(store: Store, clock: ManualClock) -> None:
    execution = start(store)
    session = store.sessions.get("writer", "s")
    assert (session.agent, session.id, session.status) == ("writer", "s", SessionStatus.RUNNING)
    assert session.created_at == session.changed_at == clock.now
    assert total(store) == 1
    assert store.sessions.totals(agent="reader") == {}
    assert session.turn == execution


def test_a_session_is_made_empty(store: Store) -> None:
    session = store.sessions.create("writer", "s")
    assert (session.status, total(store), session.turn) == (SessionStatus.IDLE, 0, None)
    with pytest.raises(SessionExists):
        store.sessions.create("writer", "s")
    store.sessions.create("reader", "s")
    assert {(s.agent, s.id) for s in store.sessions.listed(session_id="s")} == {("writer", "s"), ("reader", "s")}
    assert [s.agent for s in store.sessions.listed(agent="writer")] == ["writer"]


def test_a_session_begins_with_its_messages(store: Store) -> None:
    said = [human("before"), {"type": "ai", "data": {"content": "Yes?", "id": "a"}}]
    rule = {"type": "system", "data": {"content": "Rhyme.", "id": "r"}}
    store.sessions.create("writer", "s", state=[rule, *said])
    execution = start(store, "now")
    assert texts(store.seed(execution.id)) == ["Be brief.\n\nRhyme.", "before", "Yes?", "now"]
    assert texts(store.sessions.messages("writer", "s")) == ["Rhyme.", "before", "Yes?", "now"]
    assert total(store) == 4


@pytest.mark.parametrize(("limit", "begins"), [(0, 4), (1, 4), (2, 2), (3, 2), (4, 0)])
def test_the_messages_it_was_made_with_count_in_its_window_but_for_instructions(
    store: Store, limit: int, begins: int
) -> None:
    rule = {"type": "system", "data": {"content": "Rhyme.", "id": "r"}}
    upon = {"type": "ai", "data": {"content": "upon", "id": "a"}}
    store.sessions.create("writer", "s", state=[human("once"), rule, upon])
    turn(store, "then")
    assert seen(store, start(store, "now", history=limit)) == ["once", "upon", "then", "turn 0", "now"][begins:]


def test_there_are_at_most_so_many(store: Store) -> None:
    store.sessions.create("writer", "a", limit=2)
    store.sessions.create("reader", "b", limit=2)
    assert store.sessions.count() == 2
    with pytest.raises(TooManySessions):
        store.sessions.create("writer", "c", limit=2)
    store.sessions.delete("reader", "b", by="api")
    assert store.sessions.count() == 1
    store.sessions.create("writer", "c", limit=2)


def test_the_status_is_that_of_its_turn(store: Store, clock: ManualClock) -> None:
    def status() -> SessionStatus:
        return store.sessions.get("writer", "s").status

    _, [first, second] = parked(store, count=2, session_id="s")
    assert status() is SessionStatus.INTERRUPTED
    store.record_answers([approve(first)], by="api")
    assert status() is SessionStatus.INTERRUPTED
    store.record_answers([approve(second)], by="api", claim_for=W1)
    assert status() is SessionStatus.RUNNING
    clock.advance(5)
    succeed(journal_of(store, store.executions()[0]))
    assert status() is SessionStatus.IDLE
    assert store.sessions.get("writer", "s").changed_at == clock.now
    abort(journal_of(store, start(store)))
    assert status() is SessionStatus.ERROR
    turn(store, "again")
    assert status() is SessionStatus.IDLE


def test_what_is_under_way_in_it_is_told_oldest_first(store: Store) -> None:
    assert store.sessions.under_way("writer", "s") == []
    waiting, _ = parked(store, session_id="s")
    turn(store, "Ended.")
    start(store, session_id="other")
    start(store, agent="reader")
    running = start(store)
    assert store.sessions.under_way("writer", "s") == [waiting.id, running.id]
    assert store.sessions.turns("writer", "s") == [waiting.id, waiting.id + 1, running.id]
    store.sessions.delete("writer", "s", by="api")
    assert store.sessions.under_way("writer", "s") == store.sessions.turns("writer", "s") == []
    store.sessions.create("writer", "s")
    assert store.sessions.under_way("writer", "s") == store.sessions.turns("writer", "s") == []


def test_its_open_requests_are_those_of_its_turns_oldest_first(store: Store) -> None:
    assert store.sessions.open_requests("writer", "s") == []
    _, [first, second] = parked(store, count=2, session_id="s")
    parked(store, session_id="other")
    parked(store, agent="reader", session_id="s")
    _, [third] = parked(store, session_id="s")
    assert [request.id for request in store.sessions.open_requests("writer", "s")] == [first, second, third]
    store.record_answers([approve(first)], by="api")
    assert [request.id for request in store.sessions.open_requests("writer", "s")] == [second, third]
    store.sessions.delete("writer", "s", by="api")
    assert store.sessions.open_requests("writer", "s") == []


def test_also_those_of_more_than_ten_calls_at_once(store: Store) -> None:
    _, asked = parked(store, count=12, session_id="s")
    assert asked != sorted(asked)
    assert [request.id for request in store.sessions.open_requests("writer", "s")] == asked


def test_a_request_is_found_in_its_own_session_also_when_it_was_decided(store: Store) -> None:
    asking, [request] = parked(store, session_id="s")
    assert store.sessions.request("writer", "s", request) == store.request(request)
    store.record_answers([approve(request)], by="api", claim_for=W1)
    succeed(journal_of(store, asking))
    assert store.sessions.request("writer", "s", request).answer is not None
    store.sessions.create("writer", "other")
    for agent, session_id, request_id in (
        ("writer", "other", request),
        ("reader", "s", request),
        ("writer", "s", RequestId("nonsense")),
    ):
        with pytest.raises(UnknownRequest):
            store.sessions.request(agent, session_id, request_id)
    store.sessions.delete("writer", "s", by="api")
    store.sessions.create("writer", "s")
    with pytest.raises(UnknownRequest):
        store.sessions.request("writer", "s", request)


def test_an_exclusive_turn_is_refused_while_another_is_under_way(store: Store) -> None:
    first = start(store, exclusive=True)
    with pytest.raises(ConversationBusy, match=str(first.id)):
        start(store, exclusive=True)
    start(store, exclusive=True, session_id="other")
    succeed(journal_of(store, first))
    start(store, exclusive=True)


def test_of_two_exclusive_turns_at_once_one_is_made(connect: Callable[[], Store]) -> None:
    barrier = threading.Barrier(4)

    def attempt(store: Store) -> bool:
        barrier.wait()
        try:
            start(store, exclusive=True)
        except ConversationBusy:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(attempt, [connect() for _ in range(4)])) == [False, False, False, True]


def test_a_session_that_must_exist(store: Store) -> None:
    with pytest.raises(UnknownSession):
        start(store, session_must_exist=True)
    assert store.executions() == []
    assert store.sessions.listed() == []
    store.sessions.create("writer", "s")
    start(store, session_must_exist=True)


# Deletion


def test_a_deleted_session_is_gone(store: Store) -> None:
    ended = turn(store, "one")
    assert store.sessions.delete("writer", "s", by="api") == []
    for look in (store.sessions.get, store.sessions.messages):
        with pytest.raises(UnknownSession):
            look("writer", "s")
    with pytest.raises(UnknownSession):
        store.sessions.delete("writer", "s", by="api")
    with pytest.raises(UnknownSession):
        start(store, session_must_exist=True)
    assert store.sessions.listed() == []
    assert store.execution(ended.id).status is Status.SUCCESS
    assert len(store.events(ended.id)) > 2


def test_its_turns_under_way_are_to_be_cancelled(store: Store) -> None:
    turn(store, "one")
    waiting, [request] = parked(store, session_id="s")
    running = start(store)
    assert store.sessions.delete("writer", "s", by="ann") == [waiting.id, running.id]
    assert {store.execution(i).cancelled_by for i in (waiting.id, running.id)} == {"ann"}
    assert store.request(request).open  # until its execution is closed
    abort(journal_of(store, running))
    assert store.sessions.listed() == []


def test_a_session_of_the_same_id_has_nothing_of_the_old_one(store: Store) -> None:
    store.sessions.create("writer", "s", state=[human("at first")])
    turn(store, "one")
    late = start(store, "late")
    parked(store, session_id="s")
    store.sessions.delete("writer", "s", by="api")
    fresh = store.sessions.create("writer", "s")
    assert (fresh.status, total(store), fresh.turn) == (SessionStatus.IDLE, 0, None)
    record(journal_of(store, late))
    succeed(journal_of(store, late))
    assert store.sessions.messages("writer", "s") == []
    assert seen(store, start(store, "new", exclusive=True, skip=True)) == ["new"]


def test_a_turn_begins_a_deleted_session_anew(store: Store) -> None:
    turn(store, "one")
    store.sessions.delete("writer", "s", by="api")
    assert seen(store, start(store, "two")) == ["two"]
    assert texts(store.sessions.messages("writer", "s")) == ["two"]


def test_sessions_that_rest_expire(store: Store, clock: ManualClock) -> None:
    store.sessions.create("writer", "empty")
    turn(store, "one", session_id="idle")
    abort(journal_of(store, start(store, session_id="failed")))
    parked(store, session_id="interrupted")
    start(store, session_id="running")
    clock.advance(59)
    turn(store, "later", session_id="late")
    clock.advance(1)
    assert store.sessions.expire(60) == 3
    assert {session.id for session in store.sessions.listed()} == {"interrupted", "running", "late"}
    assert store.sessions.expire(60) == 0
    clock.advance(59)
    assert store.sessions.expire(60) == 1  # `late`, changed by its turn and not by its creation


def test_so_many_expire_at_once(store: Store, clock: ManualClock) -> None:
    for number in range(120):
        store.sessions.create("writer", str(number))
    clock.advance(60)
    store.sessions.create("writer", "new")
    assert store.sessions.expire(60) == 120
    assert [session.id for session in store.sessions.listed()] == ["new"]


def test_a_waiting_turn_of_a_live_session_still_refuses(store: Store) -> None:
    parked(store, session_id="s")
    with pytest.raises(ConversationWaiting):
        start(store, skip=True)

"""What the store promises of executions that others have called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from agent_md.errors import CallClosed, CancelRequested, ConversationWaiting, UsageError
from agent_md.executions.execution import Execution, NewChild, NewExecution, Usage
from agent_md.executions.ids import RequestId, child_wait
from agent_md.executions.positions import Position
from agent_md.executions.requests import PathStep
from agent_md.executions.sessions import SessionStatus
from agent_md.executions.states import CallState, EventType, Outcome, Status, TriggerKind
from agent_md.ports.journal import ExecutionEnd, Journal
from agent_md.ports.store import NewAnswer, Store
from tests.support.scenes import SPEC, W1, W2, ai, begin, gate_request, human, journal_of, proposal, types_of
from tests.support.workers import FakeWorkers

FIRST, SECOND = Position(0, 0), Position(0, 1)


def child_of(parent: Execution, agent: str = "helper") -> NewChild:
    new = NewExecution(agent, TriggerKind.AGENT, (human("Help"),), parent_id=parent.id)
    return NewChild(new, SPEC, hashlib.sha256(SPEC.encode()).hexdigest())


def calling(store: Store, parent: Execution, *positions: Position) -> Journal:
    """The journal of an execution whose calls have each started a child."""
    journal = journal_of(store, parent)
    journal.record_model_step(
        0, ai(""), "", Usage(10, 5, 0.5), [proposal(0, p.index, tool="run_agent") for p in positions]
    )
    for position in positions:
        journal.start_call(position, {}, None)
        journal.pause_call(position, [], child=child_of(parent))
    return journal


def drive(store: Store, execution: Execution) -> Journal:
    claim = store.claim(execution.id, W1)
    assert claim is not None
    return store.journal(claim)


def asking(store: Store, child: Execution, request_id: str) -> Journal:
    """The journal of a child that has asked a human, and waits."""
    journal = drive(store, child)
    request = gate_request(journal, id=RequestId(request_id))
    journal.record_model_step(0, ai(""), "", Usage(1, 1, 0.25), [proposal(0, 0, request=request)])
    assert journal.park([frozenset({request.id})])
    return journal


def test_a_child_is_created_with_the_pause_of_its_call_and_waits_to_be_driven(store: Store) -> None:
    root = begin(store)
    calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    assert (child.status, child.parent_id, child.root, child.position) == (Status.QUEUED, root.id, root.id, FIRST)
    call = store.call(root.id, FIRST)
    assert call is not None
    assert call.state is CallState.PAUSED
    assert store.waits(root.id) == {child_wait(child.id): True}
    assert [x.id for x in store.family(root.id)] == [root.id, child.id]
    assert [x.id for x in store.line(child.id)] == [root.id, child.id]
    assert store.seed(child.id) == [human("Help")]
    told = [event for event in store.events(root.id) if event.type is EventType.CHILD_STARTED]
    assert [event.data["child_execution_id"] for event in told] == [child.id]


def test_a_child_belongs_to_the_worker_of_a_journal_that_keeps_its_family(store: Store) -> None:
    root = begin(store)
    journal = store.journal(_claim(store, root), keeps_family=True)
    journal.record_model_step(0, ai(""), "", Usage(), [proposal(0, 0)])
    journal.start_call(FIRST, {}, None)
    journal.pause_call(FIRST, [], child=child_of(root))
    child = store.child(root.id, FIRST)
    assert child is not None
    assert (child.status, child.worker, child.epoch) == (Status.RUNNING, W1, 1)
    assert journal.park([frozenset({child_wait(child.id)})])
    store.journal(_claim(store, child), keeps_family=True).finish(ExecutionEnd(Status.SUCCESS, output="done"))
    parent = store.execution(root.id)
    assert (parent.status, parent.worker, parent.epoch) == (Status.RUNNING, W1, 2)


def _claim(store: Store, execution: Execution):  # type: ignore[no-untyped-def]
    return journal_of(store, execution).claim


def test_no_call_starts_two_children(store: Store) -> None:
    root = begin(store)
    journal = calling(store, root, FIRST)
    with pytest.raises(CallClosed):
        journal.pause_call(FIRST, [], child=child_of(root))
    assert len(store.family(root.id)) == 2


def test_an_execution_that_is_to_be_cancelled_starts_no_child(store: Store) -> None:
    root = begin(store)
    journal = journal_of(store, root)
    journal.record_model_step(0, ai(""), "", Usage(), [proposal(0, 0)])
    journal.start_call(FIRST, {}, None)
    store.request_cancel(root.id, "somebody")
    with pytest.raises(CancelRequested):
        journal.pause_call(FIRST, [], child=child_of(root))
    assert store.child(root.id, FIRST) is None


def test_a_parent_that_waits_for_children_is_told_as_running_until_one_of_them_asks(store: Store) -> None:
    root = begin(store)
    journal = calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    assert journal.park([frozenset({child_wait(child.id)})])
    parent = store.execution(root.id)
    assert (parent.status, parent.parked, parent.worker) == (Status.RUNNING, True, None)
    assert [x.id for x in store.executions(statuses=(Status.RUNNING,))] == [root.id]
    assert store.count((Status.WAITING,)) == 0
    assert [x.id for x in store.abandoned()] == [child.id]
    assert EventType.WAITING not in types_of(store, root.id)

    asking(store, child, "r")
    assert store.execution(root.id).status is Status.WAITING
    assert [x.id for x in store.executions(statuses=(Status.WAITING,))] == [child.id, root.id]
    assert store.count((Status.WAITING, Status.SUCCESS)) == 2
    (waiting,) = [event for event in store.events(root.id) if event.type is EventType.WAITING]
    assert waiting.data["request_ids"] == ["r"]


def test_the_end_of_a_child_queues_its_parent_and_is_told(store: Store) -> None:
    root = begin(store)
    journal = calling(store, root, FIRST, SECOND)
    one, two = store.child(root.id, FIRST), store.child(root.id, SECOND)
    assert one is not None
    assert two is not None
    waits = [frozenset({child_wait(one.id)}), frozenset({child_wait(two.id)})]
    assert journal.park(waits)
    drive(store, one).finish(ExecutionEnd(Status.ERROR, error="no luck"))
    parent = store.execution(root.id)
    assert (parent.status, parent.parked) == (Status.QUEUED, False)
    (told,) = [event for event in store.events(root.id) if event.type is EventType.CHILD_ENDED]
    assert (told.data["status"], told.data["error"], told.data["position"]) == ("error", "no luck", "0.0")
    assert store.waits(root.id) == {child_wait(one.id): False, child_wait(two.id): True}
    assert not drive(store, root).park(waits), "a child has ended, so its call can go on"


def test_a_parent_that_works_is_not_taken_from_its_worker_by_the_end_of_a_child(store: Store) -> None:
    root = begin(store)
    journal = calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    drive(store, child).finish(ExecutionEnd(Status.SUCCESS, output="done"))
    assert (store.execution(root.id).worker, store.execution(root.id).epoch) == (W1, 1)
    assert not journal.park([frozenset({child_wait(child.id)})])


def test_requests_of_children_are_told_and_found_under_the_root_with_their_path(store: Store) -> None:
    root = begin(store)
    calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    middle = drive(store, child)
    middle.record_model_step(0, ai(""), "", Usage(), [proposal(0, 0)])
    middle.start_call(FIRST, {}, None)
    middle.pause_call(FIRST, [], child=child_of(child, "deepest"))
    deepest = store.child(child.id, FIRST)
    assert deepest is not None
    asking(store, deepest, "r")
    (request,) = store.requests(root.id, family=True)
    assert request.path == (PathStep(root.id, "writer"), PathStep(child.id, "helper"), PathStep(deepest.id, "deepest"))
    assert request.root == PathStep(root.id, "writer")
    assert store.requests(root.id) == []
    assert store.open_requests() == [request]
    (told,) = [event for event in store.events(root.id) if event.type is EventType.INTERRUPT]
    assert (told.data["request_id"], told.data["child_execution_id"]) == ("r", deepest.id)


def test_answers_for_several_of_a_family_are_recorded_at_once_or_not_at_all(store: Store) -> None:
    root = begin(store)
    journal = calling(store, root, FIRST, SECOND)
    one, two = store.child(root.id, FIRST), store.child(root.id, SECOND)
    assert one is not None
    assert two is not None
    asking(store, one, "a")
    asking(store, two, "b")
    journal.park([frozenset({child_wait(one.id)}), frozenset({child_wait(two.id)})])
    answers = [NewAnswer(RequestId(each), Outcome.APPROVED, {"approved": True}) for each in ("a", "b")]
    receipt = store.record_answers(answers, by="somebody", claim_for=W2)
    assert receipt.claim is not None
    assert receipt.claim.execution_id == one.id
    assert store.execution(two.id).status is Status.QUEUED
    assert store.execution(root.id).status is Status.RUNNING, "its children go on"
    told = [event.data["request_id"] for event in store.events(root.id) if event.type is EventType.RESUMED]
    assert told == ["a", "b"]

    other = asking_root(store)
    with pytest.raises(UsageError):
        store.record_answers([answers[0], NewAnswer(other, Outcome.APPROVED, {"approved": True})], by="x")


def asking_root(store: Store) -> RequestId:
    root = begin(store, worker=None)
    asking(store, root, "other")
    return RequestId("other")


def test_a_cancellation_goes_down(store: Store) -> None:
    root = begin(store)
    journal = calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    asking(store, child, "r")
    journal.park([frozenset({child_wait(child.id)})])
    store.request_cancel(root.id, "somebody")
    assert [x.cancelled_by for x in store.family(root.id)] == ["somebody"] * 2
    assert [x.id for x in store.abandoned()] == [root.id, child.id]
    claim = store.claim(child.id, W2)
    assert claim is not None
    store.journal(claim).finish(ExecutionEnd(Status.ABORTED, ended_by="somebody"))
    assert store.execution(root.id).status is Status.QUEUED


def test_the_end_of_a_parent_cancels_what_it_has_called(store: Store) -> None:
    root = begin(store)
    journal = calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    journal.finish(ExecutionEnd(Status.TIMEOUT, error="too long"))
    assert store.execution(child.id).cancelled_by == "policy"
    claim = store.claim(child.id, W1)
    assert claim is not None
    store.journal(claim).finish(ExecutionEnd(Status.ABORTED))
    assert store.execution(root.id).status is Status.TIMEOUT


def test_what_a_family_has_used_is_one_sum(store: Store, workers: FakeWorkers) -> None:
    root = begin(store)
    calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    asking(store, child, "r")
    spent = store.spent_by(root.id)
    assert (spent.usage, spent.calls) == (Usage(11, 6, 0.75), 2)
    assert store.spent_by(child.id).usage == Usage(1, 1, 0.25)


def test_a_retraction_does_not_undo_the_end_of_a_child(store: Store) -> None:
    root = begin(store)
    journal = journal_of(store, root)
    request = gate_request(journal, SECOND, id=RequestId("own"))
    calls = [proposal(0, 0, tool="run_agent"), proposal(0, 1, request=request)]
    journal.record_model_step(0, ai(""), "", Usage(), calls)
    journal.start_call(FIRST, {}, None)
    journal.pause_call(FIRST, [], child=child_of(root))
    child = store.child(root.id, FIRST)
    assert child is not None
    assert journal.park([frozenset({child_wait(child.id)}), frozenset({request.id})])
    drive(store, child).finish(ExecutionEnd(Status.SUCCESS, output="done"))
    store.record_answers([NewAnswer(request.id, Outcome.APPROVED, {"approved": True})], by="somebody")
    store.retract(request.id, by="somebody")
    assert store.execution(root.id).status is Status.QUEUED


def test_a_session_is_interrupted_by_what_its_turn_has_called(store: Store) -> None:
    root = begin(store, session_id="s")
    journal = calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    journal.park([frozenset({child_wait(child.id)})])
    assert store.sessions.get("writer", "s").status is SessionStatus.RUNNING
    asking(store, child, "r")
    assert store.sessions.get("writer", "s").status is SessionStatus.INTERRUPTED
    assert [r.id for r in store.sessions.open_requests("writer", "s")] == ["r"]
    assert store.sessions.request("writer", "s", RequestId("r")).execution_id == child.id
    with pytest.raises(ConversationWaiting):
        begin(store, session_id="s", skip=True)
    assert store.sessions.delete("writer", "s", by="somebody") == [root.id]
    assert store.execution(child.id).cancelled_by == "somebody"


def test_a_child_is_no_part_of_any_conversation(store: Store) -> None:
    root = begin(store)
    calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    asking(store, child, "r")
    assert begin(store, agent="helper", skip=True).id > child.id


def test_the_death_of_a_process_counts_for_the_child_and_not_for_its_parent(
    connect: Callable[[], Store], workers: FakeWorkers
) -> None:
    store = connect()
    root = begin(store)
    journal = calling(store, root, FIRST)
    child = store.child(root.id, FIRST)
    assert child is not None
    journal.park([frozenset({child_wait(child.id)})])
    drive(store, child).begin("the model call of turn 0")
    workers.kill(W1)
    store.settle_deaths()
    died, parent = store.execution(child.id), store.execution(root.id)
    assert (died.status, died.suspect, died.attempts) == (Status.QUEUED, True, 1)
    assert (parent.suspect, parent.attempts) == (False, 0)

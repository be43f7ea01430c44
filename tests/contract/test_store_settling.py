"""Any store: what somebody says of a call that may have run is kept beside it, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_md.errors import NothingToSettle, SettledOtherwise, UnknownCall, UnknownExecution
from agent_md.executions.calls import Settlement
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, CallState
from agent_md.ports.journal import Journal
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import FIRST, begin, finish_call, journal_of, proposal, record, snapshot, succeed, tool

SECOND = Position(0, 1)


def cut_off(journal: Journal, position: Position = FIRST) -> None:
    text = "Unknown: the call may have run"
    message = tool(text, f"call-{position}")
    journal.finish_call(position, CallState.UNKNOWN, CallOutcome.UNKNOWN, text, message)


@pytest.fixture
def ended(store: Store) -> Execution:
    """It succeeded; two of its calls may have run, of the third it is known."""
    execution = begin(store)
    journal = journal_of(store, execution)
    record(journal, calls=[proposal(), proposal(0, 1), proposal(0, 2)])
    cut_off(journal)
    cut_off(journal, SECOND)
    finish_call(journal, Position(0, 2))
    succeed(journal)
    return store.execution(execution.id)


def test_a_call_that_may_have_run_counts_until_it_is_settled(store: Store, ended: Execution) -> None:
    known = begin(store)
    assert ended.unknown_calls == 2
    assert store.events(ended.id)[-1].data["unknown_calls"] == 2
    assert [x.id for x in store.executions(unknown=True)] == [ended.id]
    assert [x.id for x in store.executions(unknown=False)] == [known.id]
    store.settle_call(ended.id, FIRST, ran=True, note=None, by="cli:ann")
    assert store.execution(ended.id).unknown_calls == 1
    assert [x.id for x in store.executions(unknown=True, agent="writer")] == [ended.id]
    store.settle_call(ended.id, SECOND, ran=False, note="no mail came", by="api")
    assert store.execution(ended.id).unknown_calls == 0
    assert store.executions(unknown=True) == []
    assert [x.id for x in store.executions(unknown=False, limit=1, offset=1)] == [ended.id]


def test_it_says_what_who_and_when_and_nothing_else_changes(store: Store, ended: Execution, clock: ManualClock) -> None:
    events, before = store.events(ended.id), store.call(ended.id, FIRST)
    clock.advance(60)
    settled = store.settle_call(ended.id, FIRST, ran=True, note="it is there", by="cli:ann")
    assert settled == Settlement(True, "it is there", "cli:ann", clock())
    call = store.call(ended.id, FIRST)
    assert call is not None
    assert before is not None
    assert call.settlement == settled
    assert store.calls(ended.id)[0] == call
    assert (call.state, call.outcome, call.result) == (before.state, before.outcome, before.result)
    assert (call.unsettled, before.unsettled) == (False, True)
    assert store.events(ended.id) == events


def test_the_same_again_is_the_first_and_another_is_refused(
    store: Store, ended: Execution, clock: ManualClock, connect: Callable[[], Store]
) -> None:
    first = store.settle_call(ended.id, FIRST, ran=True, note="seen", by="cli:ann")
    clock.advance(60)
    elsewhere = connect()
    assert elsewhere.settle_call(ended.id, FIRST, ran=True, note="seen", by="cli:bob") == first
    assert elsewhere.settle_call(ended.id, FIRST, ran=True, note=None, by="cli:bob") == first
    for ran, note in ((False, "seen"), (True, "not seen"), (False, None)):
        with pytest.raises(SettledOtherwise) as refused:
            elsewhere.settle_call(ended.id, FIRST, ran=ran, note=note, by="cli:bob")
        assert (refused.value.ran, refused.value.settled_by, refused.value.settled_at) == (
            True,
            "cli:ann",
            first.settled_at,
        )
        assert "cli:ann" in str(refused.value)
    call = store.call(ended.id, FIRST)
    assert call is not None
    assert call.settlement == first


def test_only_a_call_that_may_have_run_is_settled(store: Store, ended: Execution) -> None:
    running = begin(store)
    record(journal_of(store, running), calls=[proposal()])
    before = [snapshot(store, execution.id) for execution in (ended, running)]
    for execution_id, position, error in (
        (ended.id, Position(0, 2), NothingToSettle),
        (running.id, FIRST, NothingToSettle),
        (ended.id, Position(0, 3), UnknownCall),
        (ended.id, Position(9, 0), UnknownCall),
        (ExecutionId(99), FIRST, UnknownExecution),
        (ExecutionId(2**70), FIRST, UnknownExecution),
    ):
        with pytest.raises(error):
            store.settle_call(execution_id, position, ran=True, note=None, by="api")
    assert [snapshot(store, execution.id) for execution in (ended, running)] == before


def test_a_call_of_an_execution_that_goes_on_is_settled_too(store: Store, journal: Journal) -> None:
    record(journal, calls=[proposal()])
    cut_off(journal)
    assert store.execution(journal.claim.execution_id).unknown_calls == 1
    store.settle_call(journal.claim.execution_id, FIRST, ran=False, note=None, by="api")
    succeed(journal)
    ended = store.execution(journal.claim.execution_id)
    assert ended.unknown_calls == 0
    assert store.events(ended.id)[-1].data["unknown_calls"] == 0

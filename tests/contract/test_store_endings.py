"""Any store: how a driver lets go of its execution, and the time it worked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent_md.errors import ClaimLost
from agent_md.executions.execution import Claim, Usage
from agent_md.executions.ids import RequestId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, CallState, EventType, Outcome, Status
from agent_md.ports.journal import ExecutionEnd, Journal
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    FIRST,
    W1,
    W2,
    abort,
    approve,
    ask,
    begin,
    finish_call,
    gate_request,
    journal_of,
    parked,
    proposal,
    record,
    snapshot,
    succeed,
    types_of,
)
from tests.support.workers import FakeWorkers


class TestPark:
    def test_it_waits_and_its_worker_is_free(self, store: Store) -> None:
        journal = journal_of(store, begin(store))
        [asked] = ask(journal)
        assert journal.park([frozenset({asked})]) is True
        execution = store.execution(journal.claim.execution_id)
        assert (execution.status, execution.worker, execution.epoch) == (Status.WAITING, None, 1)

    def test_the_event_names_one_request(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        event = store.events(waiting.id)[-1]
        assert (event.key, event.type, event.message) == ("waiting:1", EventType.WAITING, "Waiting for an answer")
        assert event.data == {"request_ids": [asked]}

    def test_the_event_names_all_open_requests_oldest_first(self, store: Store, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        names = [RequestId(name) for name in ("z", "b", "a")]
        journal.pause_call(FIRST, [gate_request(journal, id=name) for name in names])
        store.record_answers([approve(names[1])], by="me")
        assert journal.park([frozenset(names)])
        event = store.events(journal.claim.execution_id)[-1]
        assert (event.data, event.message) == ({"request_ids": ["z", "a"]}, "Waiting for 2 answers")

    def test_it_waits_again_with_an_event_of_its_own(self, store: Store) -> None:
        waiting, [first, second] = parked(store, count=2)
        claim = store.record_answers([approve(first)], by="me", claim_for=W1).claim
        assert claim is not None
        assert store.journal(claim).park([frozenset({second})])
        waits = [event for event in store.events(waiting.id) if event.type is EventType.WAITING]
        assert [event.key for event in waits] == ["waiting:1", "waiting:2"]
        assert waits[1].data == {"request_ids": [second]}

    def answered(self, store: Store, journal: Journal, *answered: int) -> list[RequestId]:
        ids = ask(journal, count=3)
        store.record_answers([approve(ids[index]) for index in answered], by="me")
        return ids

    @pytest.mark.parametrize(
        ("answered", "waits", "parks"),
        [
            ((0,), ((0,),), False),
            ((0,), ((1,),), True),
            ((0,), ((0, 1), (2,)), True),
            ((0, 1), ((0, 1), (2,)), False),
            ((2,), ((0, 1), (2,)), False),
            ((0,), (), True),
        ],
    )
    def test_only_if_no_call_has_all_its_answers(
        self,
        store: Store,
        journal: Journal,
        answered: tuple[int, ...],
        waits: tuple[tuple[int, ...], ...],
        parks: bool,
    ) -> None:
        ids = self.answered(store, journal, *answered)
        assert journal.park([frozenset(ids[index] for index in wait) for wait in waits]) is parks
        status = Status.WAITING if parks else Status.RUNNING
        assert store.execution(journal.claim.execution_id).status is status

    def test_when_there_is_an_answer_nothing_is_written(self, store: Store, journal: Journal) -> None:
        ids = self.answered(store, journal, 0)
        before, *others = snapshot(store, journal.claim.execution_id)
        assert journal.park([frozenset({ids[0]}), frozenset({ids[1]})]) is False
        after, *others_after = snapshot(store, journal.claim.execution_id)
        assert others_after == others
        assert replace(after, work_ms=0) == replace(before, work_ms=0)

    def test_and_the_driver_goes_on(self, store: Store, journal: Journal) -> None:
        ids = self.answered(store, journal, 0)
        journal.park([frozenset({ids[0]})])
        finish_call(journal)
        assert journal.park([frozenset({ids[1]}), frozenset({ids[2]})])

    def test_an_expiry_is_an_answer(self, store: Store, journal: Journal, clock: ManualClock) -> None:
        [asked] = ask(journal, expires_in=10)
        clock.advance(10)
        store.settle_overdue()
        assert journal.park([frozenset({asked})]) is False


class TestRelease:
    def test_it_is_queued_and_its_worker_is_free(self, store: Store, journal: Journal) -> None:
        journal.release()
        execution = store.execution(journal.claim.execution_id)
        assert (execution.status, execution.worker, execution.epoch) == (Status.QUEUED, None, 1)
        assert store.claim(execution.id, W2) == Claim(execution.id, W2, 2)

    def test_it_stores_no_event(self, store: Store, journal: Journal) -> None:
        journal.release()
        assert types_of(store, journal.claim.execution_id) == ["system", "human"]


class TestFinish:
    def test_how_it_ended_is_kept(self, store: Store, journal: Journal, clock: ManualClock) -> None:
        clock.advance(7)
        journal.finish(ExecutionEnd(Status.ERROR, error="no key", output="half"))
        execution = store.execution(journal.claim.execution_id)
        assert (execution.status, execution.error, execution.output) == (Status.ERROR, "no key", "half")
        assert (execution.finished_at, execution.worker) == (clock.now, None)

    @pytest.mark.parametrize("status", [status for status in Status if status.final])
    def test_the_complete_event_is_the_last(self, store: Store, journal: Journal, status: Status) -> None:
        record(journal, usage=Usage(10, 5, 0.25))
        journal.finish(ExecutionEnd(status, error="why", ended_by="cli:me"))
        execution = store.execution(journal.claim.execution_id)
        event = store.events(execution.id)[-1]
        assert (event.key, event.type, event.message) == ("complete", EventType.COMPLETE, status.value)
        assert event.data == {
            "status": status.value,
            "error": "why",
            "duration_ms": execution.work_ms,
            "total_tokens": 15,
            "cost_usd": 0.25,
            "ended_by": "cli:me",
            "unknown_calls": 0,
        }

    def test_an_output_is_the_final_answer(self, store: Store, journal: Journal) -> None:
        journal.finish(ExecutionEnd(Status.SUCCESS, output="42"))
        final, complete = store.events(journal.claim.execution_id)[-2:]
        assert (final.key, final.type, final.message, final.data) == ("final", EventType.FINAL_ANSWER, "42", {})
        assert complete.type is EventType.COMPLETE

    def test_without_an_output_there_is_no_final_answer(self, store: Store, journal: Journal) -> None:
        abort(journal)
        assert types_of(store, journal.claim.execution_id) == ["system", "human", "complete"]

    def test_open_calls_are_closed(self, store: Store, journal: Journal) -> None:
        record(journal, calls=[proposal(0, 0), proposal(0, 1)])
        journal.start_call(FIRST, {}, None)
        closings = (
            (Position(0, 0), CallState.UNKNOWN, CallOutcome.UNKNOWN, "It may have run"),
            (Position(0, 1), CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed"),
        )
        journal.finish(ExecutionEnd(Status.ABORTED, closings=closings))
        calls = store.calls(journal.claim.execution_id)
        assert [(call.position, call.state, call.outcome, call.result) for call in calls] == list(closings)

    def test_the_event_of_a_closed_call(self, store: Store, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        closing = (FIRST, CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed")
        journal.finish(ExecutionEnd(Status.ABORTED, closings=(closing,)))
        execution_id = journal.claim.execution_id
        result = store.events(execution_id)[-2]
        assert (result.key, result.type, result.message) == ("result:0.0", EventType.TOOL_RESULT, "Not executed")
        assert result.data == {
            "call_id": "call-0.0",
            "tool_name": "file_read",
            "position": "0.0",
            "outcome": "not_run",
            "message": {
                "type": "tool",
                "data": {
                    "content": "Not executed",
                    "tool_call_id": "call-0.0",
                    "name": "file_read",
                    "id": f"{execution_id}:tool:0.0",
                    "status": "error",
                },
            },
        }

    def test_a_call_closed_before_is_left_alone(self, store: Store, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        finish_call(journal, text="first")
        before = store.calls(journal.claim.execution_id)
        closing = (FIRST, CallState.UNKNOWN, CallOutcome.UNKNOWN, "second")
        journal.finish(ExecutionEnd(Status.ABORTED, closings=(closing,)))
        assert store.calls(journal.claim.execution_id) == before
        assert types_of(store, journal.claim.execution_id).count("tool_result") == 1

    @pytest.mark.parametrize(("ended_by", "answered_by"), [(None, "policy"), ("cli:me", "cli:me")])
    def test_open_requests_are_cancelled(
        self, store: Store, journal: Journal, clock: ManualClock, ended_by: str | None, answered_by: str
    ) -> None:
        ids = ask(journal, count=2)
        store.record_answers([approve(ids[0])], by="her")
        journal.finish(ExecutionEnd(Status.ABORTED, ended_by=ended_by))
        answered, cancelled = (request.answer for request in store.requests(journal.claim.execution_id))
        assert answered is not None
        assert cancelled is not None
        assert (answered.outcome, answered.answered_by) == (Outcome.APPROVED, "her")
        assert (cancelled.outcome, cancelled.value, cancelled.answered_by) == (Outcome.CANCELLED, None, answered_by)
        assert cancelled.answered_at == clock.now
        assert store.open_requests() == []

    def test_a_cancelled_request_is_not_resumed(self, store: Store, journal: Journal) -> None:
        ask(journal)
        abort(journal)
        assert "resumed" not in types_of(store, journal.claim.execution_id)

    def test_requests_of_others_stay_open(self, store: Store, journal: Journal) -> None:
        _, [theirs] = parked(store)
        ask(journal)
        abort(journal)
        assert [request.id for request in store.open_requests()] == [theirs]

    def test_a_final_status_never_changes(self, store: Store, workers: FakeWorkers, clock: ManualClock) -> None:
        journal = journal_of(store, begin(store))
        [asked] = ask(journal, expires_in=10)
        store.record_answers([approve(asked)], by="me")
        ask(journal, turn=1, expires_in=10)
        abort(journal)
        before = snapshot(store, journal.claim.execution_id)
        workers.kill(W1)
        clock.advance(100)
        assert store.claim(journal.claim.execution_id, W2) is None
        assert store.claim_to_cancel(journal.claim.execution_id, W2) is None
        assert store.settle_overdue() == []
        store.request_cancel(journal.claim.execution_id, "me")
        store.record_answers([approve(asked)], by="me", claim_for=W2)
        with pytest.raises(ClaimLost):
            succeed(journal)
        assert snapshot(store, journal.claim.execution_id) == before
        assert store.abandoned() == []


class TestTimeOfWork:
    def spin(self, seconds: float) -> None:
        """Work that takes so long: what is measured is the time itself, which no store can be given."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    @pytest.mark.parametrize(
        "write",
        [record, lambda journal: journal.release(), lambda journal: journal.park([]), succeed],
        ids=["record_model_step", "release", "park", "finish"],
    )
    def test_it_counts_from_the_journal_to_its_last_write(self, store: Store, write: Callable[[Journal], Any]) -> None:
        execution = begin(store)
        started = time.monotonic()
        journal = journal_of(store, execution)
        self.spin(0.02)
        write(journal)
        most = (time.monotonic() - started) * 1000 + 1
        assert 20 <= store.execution(execution.id).work_ms <= most

    def test_it_adds_up_over_drives(self, store: Store) -> None:
        execution = begin(store)
        started = time.monotonic()
        for number in range(3):
            journal = journal_of(store, execution)
            self.spin(0.01)
            record(journal, number)
            journal.release()
            store.claim(execution.id, W1)
        most = (time.monotonic() - started) * 1000 + 6
        assert 30 <= store.execution(execution.id).work_ms <= most

    def test_no_time_is_lost_when_parking_finds_an_answer(self, store: Store) -> None:
        journal = journal_of(store, begin(store))
        self.spin(0.02)
        assert journal.park([frozenset()]) is False
        record(journal)
        assert store.execution(journal.claim.execution_id).work_ms >= 20

    def test_the_time_of_humans_is_not_in_it(self, store: Store, clock: ManualClock) -> None:
        waiting, [asked] = parked(store)
        before = store.execution(waiting.id).work_ms
        clock.advance(86_400)
        claim = store.record_answers([approve(asked)], by="me", claim_for=W1).claim
        assert claim is not None
        succeed(store.journal(claim))
        assert store.execution(waiting.id).work_ms - before < 60_000


class TestAClockThatIsSetBack:
    """Times of one execution are in order all the same."""

    def test_it_ends_no_earlier_than_it_began(self, store: Store, clock: ManualClock) -> None:
        execution = begin(store)
        clock.advance(-7200)
        succeed(journal_of(store, execution))
        ended = store.execution(execution.id)
        assert ended.created_at == ended.started_at == ended.finished_at
        assert ended.work_ms < 60_000

    def test_it_begins_no_earlier_than_it_was_made(self, store: Store, clock: ManualClock) -> None:
        execution = begin(store, worker=None)
        clock.advance(-7200)
        claim = store.claim(execution.id, W1)
        assert claim is not None
        assert store.execution(execution.id).started_at == execution.created_at
        clock.advance(60)
        succeed(store.journal(claim))
        assert store.execution(execution.id).finished_at == execution.created_at

    def test_a_deadline_shows_no_more_time_than_was_given(self, store: Store, clock: ManualClock) -> None:
        _, [asked] = parked(store, expires_in=3600)
        request = store.request(asked)
        lefts = []
        for step in (0, 60, -7200, 7200 + 3600):
            clock.advance(step)
            lefts.append(request.time_left(clock.now))
        assert lefts == [3600, 3540, 3600, -60]
        _, [other] = parked(store, agent="reader")
        assert store.request(other).time_left(clock.now) is None

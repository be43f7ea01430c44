"""Any store: what a driver writes of its AI messages, calls and steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_md.errors import CallClosed, CancelRequested
from agent_md.executions.calls import StepRecord
from agent_md.executions.execution import Usage
from agent_md.executions.ids import RequestId
from agent_md.executions.positions import Position
from agent_md.executions.requests import CallEffect, Preview
from agent_md.executions.states import CallOutcome, CallState, Decision, EventType, RequestKind, RequestSource
from agent_md.ports.journal import Journal
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    FIRST,
    ai,
    approve,
    ask,
    begin,
    finish_call,
    gate_request,
    journal_of,
    proposal,
    record,
    snapshot,
    taken_over,
    tool,
    types_of,
)
from tests.support.workers import FakeWorkers


class TestModelStep:
    def test_the_message_is_kept(self, store: Store, journal: Journal) -> None:
        message = ai("Hi", proposal())
        journal.record_model_step(0, message, "Hi", Usage(), [])
        assert store.model_step(journal.claim.execution_id, 0) == message
        assert store.model_step(journal.claim.execution_id, 1) is None

    def test_the_event(self, store: Store, journal: Journal, clock: ManualClock) -> None:
        clock.advance(3)
        message = ai("Hi")
        journal.record_model_step(0, message, "Hi", Usage(10, 5, None), [])
        event = store.events(journal.claim.execution_id)[-1]
        assert (event.key, event.type, event.message, event.at) == ("ai:0", EventType.AI, "Hi", clock.now)
        usage = {"input_tokens": 10, "output_tokens": 5, "cost_usd": None}
        assert event.data == {"message": message, "usage": usage}

    def test_usage_adds_up(self, store: Store, journal: Journal) -> None:
        record(journal, 0, usage=Usage(10, 5, 0.25))
        record(journal, 1, usage=Usage(1, 2, 0.5))
        usage = store.execution(journal.claim.execution_id).usage
        assert usage == Usage(11, 7, 0.75)

    def test_one_unknown_cost_makes_the_sum_unknown(self, store: Store, journal: Journal) -> None:
        record(journal, 0, usage=Usage(10, 5, None))
        record(journal, 1, usage=Usage(1, 2, 0.5))
        assert store.execution(journal.claim.execution_id).usage == Usage(11, 7, None)

    def test_each_call_gets_a_row(self, store: Store, journal: Journal) -> None:
        refused = proposal(0, 1, tool="file_delete", decision=Decision.REFUSE, reason="denied by a rule")
        record(journal, calls=[proposal(0, 0), refused])
        plain, other = store.calls(journal.claim.execution_id)
        assert (plain.position, plain.call_id, plain.tool) == (Position(0, 0), "call-0.0", "file_read")
        assert (plain.args, plain.decision, plain.reason) == ({"path": "a.md"}, Decision.RUN, None)
        assert (plain.state, plain.epoch) == (CallState.PROPOSED, 1)
        assert (plain.effect, plain.outcome, plain.result) == (None, None, None)
        assert (other.decision, other.reason) == (Decision.REFUSE, "denied by a rule")
        assert store.call(journal.claim.execution_id, Position(0, 1)) == other

    def test_the_events_of_a_guarded_call(self, store: Store, journal: Journal) -> None:
        [asked] = ask(journal)
        _, call, interrupt = store.events(journal.claim.execution_id)[2:]
        assert (call.key, call.type) == ("call:0.0", EventType.TOOL_CALL)
        assert call.message == 'file_read → {"path": "a.md"}'
        assert call.data == {
            "call_id": "call-0.0",
            "tool_name": "file_read",
            "args": {"path": "a.md"},
            "position": "0.0",
            "decision": "ask",
        }
        assert (interrupt.key, interrupt.type) == (f"request:{asked}", EventType.INTERRUPT)
        assert interrupt.message == "Run file_read at 0.0?"
        assert interrupt.data == {
            "request_id": asked,
            "kind": "confirm",
            "position": "0.0",
            "tool_name": "file_read",
        }

    def test_every_call_comes_after_its_message_and_before_its_request(self, store: Store, journal: Journal) -> None:
        ask(journal, count=3)
        keys = [event.key for event in store.events(journal.claim.execution_id)]
        assert keys[2] == "ai:0"
        calls = [keys.index(f"call:0.{index}") for index in range(3)]
        assert calls == sorted(calls)
        for index, at in enumerate(calls):
            assert keys.index(f"request:r{journal.claim.execution_id}-0.{index}") > at

    def test_the_requests_of_all_guarded_calls_are_open(self, store: Store, journal: Journal) -> None:
        ids = ask(journal, count=3)
        requests = store.requests(journal.claim.execution_id)
        assert [request.id for request in requests] == ids
        assert all(request.open for request in requests)

    def test_a_turn_that_is_there_is_left_alone(self, store: Store, journal: Journal) -> None:
        ask(journal)
        before = store.events(journal.claim.execution_id)
        other = proposal(0, 1, request=gate_request(journal, Position(0, 1)))
        journal.record_model_step(0, ai("other"), "other", Usage(100, 100, 1.0), [proposal(0, 0, args={}), other])
        execution = store.execution(journal.claim.execution_id)
        assert store.events(execution.id) == before
        assert execution.usage == Usage(10, 5, 0.25)
        assert [(call.position, call.args) for call in store.calls(execution.id)] == [(FIRST, {"path": "a.md"})]
        assert len(store.requests(execution.id)) == 1
        assert store.model_step(execution.id, 0) == before[2].data["message"]

    def test_a_turn_of_a_dead_driver_is_left_alone_too(
        self, store: Store, journal: Journal, workers: FakeWorkers
    ) -> None:
        ask(journal)
        before = store.events(journal.claim.execution_id)
        ask(taken_over(store, workers, journal))
        assert store.events(journal.claim.execution_id) == before
        assert store.execution(journal.claim.execution_id).usage == Usage(10, 5, 0.25)

    def test_all_of_it_or_nothing(self, store: Store, journal: Journal) -> None:
        before = snapshot(store, journal.claim.execution_id)
        with pytest.raises(TypeError):
            record(journal, calls=[proposal(0, 0), proposal(0, 1, args={"not JSON": object()})])
        assert snapshot(store, journal.claim.execution_id) == before

    def test_calls_are_listed_by_position(self, store: Store, journal: Journal) -> None:
        for turn in (10, 2, 0):
            record(journal, turn, [proposal(turn, index) for index in range(11)])
        positions = [call.position for call in store.calls(journal.claim.execution_id)]
        assert positions == [Position(turn, index) for turn in (0, 2, 10) for index in range(11)]

    def test_the_calls_of_one_message(self, store: Store, journal: Journal) -> None:
        record(journal, 0, [proposal(0, 0)])
        record(journal, 1, [proposal(1, index) for index in range(3)])
        every = store.calls(journal.claim.execution_id)
        assert store.calls(journal.claim.execution_id, turn=1) == every[1:]
        assert store.calls(journal.claim.execution_id, turn=0) == every[:1]
        assert store.calls(journal.claim.execution_id, turn=2) == []


class TestRequestRows:
    def test_everything_asked_is_kept(self, store: Store, journal: Journal, clock: ManualClock) -> None:
        new = gate_request(
            journal,
            id=RequestId("r-1"),
            source=RequestSource.TOOL,
            kind=RequestKind.QUESTIONS,
            options=("a", "b"),
            multi=True,
            questions=({"question": "Why?", "multiSelect": False}, {"question": "When?"}),
            payload={"type": "custom", "deep": [{"x": None}]},
            response_schema={"type": "object"},
            preview=Preview("out/a.md", "-a\n+b", 12, "text/plain"),
            occurrence=2,
            expires_in=60.5,
        )
        record(journal, calls=[proposal(request=new)])
        got = store.request(RequestId("r-1"))
        assert (got.execution_id, got.agent) == (journal.claim.execution_id, "writer")
        assert (got.created_at, got.expires_at, got.answer) == (clock.now, clock.now + 60.5, None)
        for name in (
            *("id", "position", "source", "kind", "message", "digest", "occurrence", "tool_name", "tool_args"),
            *("options", "multi", "questions", "payload", "response_schema", "preview"),
        ):
            assert getattr(got, name) == getattr(new, name), name

    def test_what_was_not_given_is_none(self, store: Store, journal: Journal) -> None:
        new = gate_request(journal, tool_name=None, tool_args=None)
        record(journal, calls=[proposal(request=new)])
        got = store.request(new.id)
        assert (got.tool_name, got.tool_args, got.options, got.multi, got.questions) == (None,) * 5
        assert (got.payload, got.response_schema, got.preview, got.expires_at) == (None,) * 4

    @pytest.mark.parametrize(
        "fields",
        [{"multi": False}, {"options": ()}, {"questions": ()}, {"payload": {}}, {"tool_args": {}}, {"tool_name": ""}],
    )
    def test_empty_is_not_absent(self, store: Store, journal: Journal, fields: dict[str, Any]) -> None:
        new = gate_request(journal, **fields)
        record(journal, calls=[proposal(request=new)])
        got = store.request(new.id)
        assert {name: getattr(got, name) for name in fields} == fields


class TestStartCall:
    @pytest.fixture(autouse=True)
    def call_proposed(self, journal: Journal) -> None:
        record(journal, calls=[proposal(), proposal(0, 1)])

    def test_it_is_started_with_its_arguments_and_effect(self, store: Store, journal: Journal) -> None:
        journal.start_call(FIRST, {"path": "edited.md"}, CallEffect("sha:1", "sha:2"))
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert (call.state, call.args) == (CallState.STARTED, {"path": "edited.md"})
        assert call.effect == CallEffect("sha:1", "sha:2")

    def test_no_other_call_moves(self, store: Store, journal: Journal) -> None:
        other = store.call(journal.claim.execution_id, Position(0, 1))
        journal.start_call(FIRST, {}, None)
        assert store.call(journal.claim.execution_id, Position(0, 1)) == other

    def test_it_belongs_to_its_driver(self, store: Store, journal: Journal, workers: FakeWorkers) -> None:
        new = taken_over(store, workers, journal)
        new.start_call(FIRST, {}, None)
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert call.epoch == new.claim.epoch == 2

    def test_the_proposal_stays_in_the_log(self, store: Store, journal: Journal) -> None:
        before = store.events(journal.claim.execution_id)
        journal.start_call(FIRST, {"path": "edited.md"}, None)
        assert store.events(journal.claim.execution_id) == before

    def test_a_paused_call_starts_again(self, store: Store, journal: Journal) -> None:
        journal.start_call(FIRST, {}, None)
        journal.pause_call(FIRST, [gate_request(journal)])
        journal.start_call(FIRST, {"path": "again.md"}, None)
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert (call.state, call.args) == (CallState.STARTED, {"path": "again.md"})

    def test_a_closed_call_is_left_alone(self, store: Store, journal: Journal) -> None:
        finish_call(journal)
        before = store.call(journal.claim.execution_id, FIRST)
        journal.start_call(FIRST, {"path": "late.md"}, None)
        assert store.call(journal.claim.execution_id, FIRST) == before


class TestPauseCall:
    @pytest.fixture(autouse=True)
    def call_started(self, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {"path": "a.md"}, None)

    def test_it_is_paused_and_its_requests_are_open(self, store: Store, journal: Journal) -> None:
        ids = [RequestId("q-b"), RequestId("q-a")]
        journal.pause_call(FIRST, [gate_request(journal, id=i) for i in ids])
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert (call.state, call.args) == (CallState.PAUSED, {"path": "a.md"})
        assert [(r.id, r.open) for r in store.requests(journal.claim.execution_id)] == [(i, True) for i in ids]
        assert types_of(store, journal.claim.execution_id)[-2:] == ["interrupt", "interrupt"]

    def test_requests_that_are_there_are_left_alone(self, store: Store, journal: Journal, clock: ManualClock) -> None:
        first = gate_request(journal, id=RequestId("q-1"), expires_in=10)
        journal.pause_call(FIRST, [first])
        before = store.request(first.id)
        clock.advance(5)
        changed = replace(first, message="other", expires_in=1000)
        journal.pause_call(FIRST, [changed, gate_request(journal, id=RequestId("q-2"))])
        assert store.request(first.id) == before
        assert [request.id for request in store.requests(journal.claim.execution_id)] == ["q-1", "q-2"]
        assert types_of(store, journal.claim.execution_id).count("interrupt") == 2

    def test_an_answer_that_is_there_is_left_alone(self, store: Store, journal: Journal) -> None:
        request = gate_request(journal)
        journal.pause_call(FIRST, [request])
        store.record_answers([approve(request.id)], by="me")
        before = store.request(request.id)
        journal.pause_call(FIRST, [request])
        assert store.request(request.id) == before


class TestFinishCall:
    @pytest.fixture(autouse=True)
    def call_proposed(self, journal: Journal) -> None:
        record(journal, calls=[proposal()])

    @pytest.mark.parametrize("outcome", CallOutcome)
    def test_it_is_closed_with_its_result(self, store: Store, journal: Journal, outcome: CallOutcome) -> None:
        journal.finish_call(FIRST, CallState.FINISHED, outcome, "Read 3 lines", tool("Read 3 lines"))
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert (call.state, call.outcome, call.result) == (CallState.FINISHED, outcome, "Read 3 lines")
        assert store.calls(journal.claim.execution_id) == [call]

    def test_the_event(self, store: Store, journal: Journal) -> None:
        journal.finish_call(FIRST, CallState.UNKNOWN, CallOutcome.UNKNOWN, "May have run", tool("May have run"))
        event = store.events(journal.claim.execution_id)[-1]
        assert (event.key, event.type, event.message) == ("result:0.0", EventType.TOOL_RESULT, "May have run")
        assert event.data == {
            "call_id": "call-0.0",
            "tool_name": "file_read",
            "position": "0.0",
            "outcome": "unknown",
            "message": tool("May have run"),
        }

    def test_the_first_result_stays(self, store: Store, journal: Journal) -> None:
        finish_call(journal, text="first")
        before = store.call(journal.claim.execution_id, FIRST), store.events(journal.claim.execution_id)
        journal.finish_call(FIRST, CallState.UNKNOWN, CallOutcome.FAILED, "second", tool("second"))
        after = store.call(journal.claim.execution_id, FIRST), store.events(journal.claim.execution_id)
        assert after == before

    def test_an_empty_result_is_a_result(self, store: Store, journal: Journal) -> None:
        finish_call(journal, text="")
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert call.result == ""

    def test_the_arguments_it_ran_with_stay(self, store: Store, journal: Journal) -> None:
        journal.start_call(FIRST, {"path": "edited.md"}, CallEffect("a", "b"))
        finish_call(journal)
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert (call.args, call.effect) == ({"path": "edited.md"}, CallEffect("a", "b"))


class TestSteps:
    @pytest.fixture(autouse=True)
    def calls_proposed(self, journal: Journal) -> None:
        record(journal, calls=[proposal(), proposal(0, 1)])
        for index in (0, 1):
            journal.start_call(Position(0, index), {}, None)

    def test_one_that_started(self, store: Store, journal: Journal) -> None:
        journal.begin_step(FIRST, 0, "send_mail")
        assert store.steps(journal.claim.execution_id, FIRST) == {0: StepRecord("send_mail", CallState.STARTED)}

    @pytest.mark.parametrize("result", [None, "text", 3, [1, {"a": None}], {}, False])
    def test_one_that_ended(self, store: Store, journal: Journal, result: Any) -> None:
        journal.begin_step(FIRST, 0, "send_mail")
        journal.end_step(FIRST, 0, result, None)
        steps = store.steps(journal.claim.execution_id, FIRST)
        assert steps == {0: StepRecord("send_mail", CallState.FINISHED, result)}

    def test_one_that_failed(self, store: Store, journal: Journal) -> None:
        journal.begin_step(FIRST, 0, "send_mail")
        journal.end_step(FIRST, 0, None, {"type": "ValueError", "args": ["no"]})
        step = store.steps(journal.claim.execution_id, FIRST)[0]
        assert (step.result, step.error) == (None, {"type": "ValueError", "args": ["no"]})
        assert step.state is CallState.FINISHED

    def test_by_number_and_call(self, store: Store, journal: Journal) -> None:
        for number in range(11):
            journal.begin_step(FIRST, number, f"f{number}")
        journal.begin_step(Position(0, 1), 0, "other")
        steps = store.steps(journal.claim.execution_id, FIRST)
        assert {number: step.function for number, step in steps.items()} == {n: f"f{n}" for n in range(11)}
        assert list(store.steps(journal.claim.execution_id, Position(0, 1))) == [0]

    def test_beginning_again_changes_nothing(self, store: Store, journal: Journal) -> None:
        journal.begin_step(FIRST, 0, "send_mail")
        journal.end_step(FIRST, 0, "sent", None)
        journal.begin_step(FIRST, 0, "other")
        steps = store.steps(journal.claim.execution_id, FIRST)
        assert steps == {0: StepRecord("send_mail", CallState.FINISHED, "sent")}

    def test_ending_again_changes_nothing(self, store: Store, journal: Journal) -> None:
        journal.begin_step(FIRST, 0, "send_mail")
        journal.end_step(FIRST, 0, "sent", None)
        journal.end_step(FIRST, 0, "twice", {"type": "ValueError"})
        steps = store.steps(journal.claim.execution_id, FIRST)
        assert steps == {0: StepRecord("send_mail", CallState.FINISHED, "sent")}

    def test_they_outlive_their_driver(self, store: Store, journal: Journal, workers: FakeWorkers) -> None:
        journal.begin_step(FIRST, 0, "send_mail")
        new = taken_over(store, workers, journal)
        new.end_step(FIRST, 0, "sent", None)
        assert store.steps(journal.claim.execution_id, FIRST)[0].result == "sent"


class TestCancelled:
    """Nothing begins of an execution that somebody asked to cancel; what is under way is still told of."""

    def test_no_call_is_started(self, store: Store, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        store.request_cancel(journal.claim.execution_id, "cli:ann")
        before = snapshot(store, journal.claim.execution_id)
        with pytest.raises(CancelRequested, match="cancelled by cli:ann"):
            journal.start_call(FIRST, {}, None)
        assert snapshot(store, journal.claim.execution_id) == before

    def test_no_step_is_begun(self, store: Store, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {}, None)
        journal.begin_step(FIRST, 0, "one")
        store.request_cancel(journal.claim.execution_id, "cli:ann")
        with pytest.raises(CancelRequested):
            journal.begin_step(FIRST, 1, "two")
        journal.end_step(FIRST, 0, "done", None)
        assert list(store.steps(journal.claim.execution_id, FIRST)) == [0]
        journal.finish_call(FIRST, CallState.FINISHED, CallOutcome.DONE, "done", tool("done"))
        assert store.calls(journal.claim.execution_id)[0].result == "done"


class TestClosedCalls:
    """What a tool goes on with after its call was ended: the transaction refuses it, whoever asks."""

    @pytest.fixture(autouse=True)
    def call_started(self, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {}, None)

    @pytest.mark.parametrize("state", [CallState.FINISHED, CallState.UNKNOWN])
    def test_it_begins_no_step(self, store: Store, journal: Journal, state: CallState) -> None:
        journal.finish_call(FIRST, state, CallOutcome.UNKNOWN, "cut", tool("cut"))
        with pytest.raises(CallClosed):
            journal.begin_step(FIRST, 0, "late")
        assert store.steps(journal.claim.execution_id, FIRST) == {}

    @pytest.mark.parametrize("state", [CallState.FINISHED, CallState.UNKNOWN])
    def test_it_opens_no_request(self, store: Store, journal: Journal, state: CallState) -> None:
        journal.finish_call(FIRST, state, CallOutcome.UNKNOWN, "cut", tool("cut"))
        with pytest.raises(CallClosed):
            journal.pause_call(FIRST, [gate_request(journal, source=RequestSource.TOOL)])
        assert store.requests(journal.claim.execution_id) == []

    def test_nor_does_one_that_waits(self, store: Store, journal: Journal) -> None:
        journal.pause_call(FIRST, [gate_request(journal, source=RequestSource.TOOL)])
        with pytest.raises(CallClosed):
            journal.begin_step(FIRST, 0, "late")
        assert store.steps(journal.claim.execution_id, FIRST) == {}

    def test_nor_one_that_the_driver_before_started(self, store: Store, journal: Journal, workers: FakeWorkers) -> None:
        new = taken_over(store, workers, journal)
        with pytest.raises(CallClosed):
            new.begin_step(FIRST, 0, "late")
        new.start_call(FIRST, {}, None)
        new.begin_step(FIRST, 0, "again")
        assert list(store.steps(journal.claim.execution_id, FIRST)) == [0]

    def test_a_step_that_was_begun_before_may_still_end(self, store: Store, journal: Journal) -> None:
        journal.begin_step(FIRST, 0, "send")
        journal.finish_call(FIRST, CallState.UNKNOWN, CallOutcome.UNKNOWN, "cut", tool("cut"))
        journal.end_step(FIRST, 0, "sent", None)
        assert store.steps(journal.claim.execution_id, FIRST)[0].result == "sent"


def test_what_an_agent_spent_since_then(store: Store, clock: ManualClock) -> None:
    record(journal_of(store, begin(store)))
    clock.advance(10)
    since = clock.now
    assert store.spent(since, "writer") == 0.0
    for agent in ("writer", "writer", "reader"):
        record(journal_of(store, begin(store, agent=agent)), usage=Usage(1, 1, 0.5))
    assert store.spent(since, "writer") == 1.0
    assert store.spent(0.0, "writer") == 1.25
    record(journal_of(store, begin(store)), usage=Usage(1, 1, None))
    assert store.spent(since, "writer") is None
    assert store.spent(since, "reader") == 0.5

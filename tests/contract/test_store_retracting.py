"""Any store: an answer is retracted until the call acts on it, nothing is deleted, and the question is asked again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent_md.errors import AnswerRetracted, NothingToRetract, NotRetractable, UnknownRequest
from agent_md.executions.grants import GrantEnd, GrantScope, NewGrant
from agent_md.executions.ids import RequestId
from agent_md.executions.states import CallOutcome, CallState, EventType, Outcome, RequestKind, RequestSource, Status
from agent_md.ports.journal import ExecutionEnd, Journal
from agent_md.ports.store import NewAnswer, Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    FIRST,
    W2,
    abort,
    approve,
    ask,
    begin,
    deny,
    finish_call,
    gate_request,
    journal_of,
    parked,
    proposal,
    record,
    snapshot,
    taken_over,
    tool,
    types_of,
)
from tests.support.workers import FakeWorkers


def again(request_id: RequestId, number: int = 1) -> RequestId:
    return RequestId(f"{request_id}-again{number}")


def answered(store: Store, **fields: Any) -> RequestId:
    """A request that ann approved; its execution is queued."""
    _, [asked] = parked(store, **fields)
    store.record_answers([approve(asked)], by="cli:ann")
    return asked


def driven(store: Store, workers: FakeWorkers, request_id: RequestId) -> Journal:
    claim = store.claim(store.request(request_id).execution_id, workers.start(W2))
    assert claim is not None
    return store.journal(claim)


class TestRetraction:
    def test_it_stands_beside_the_answer(self, store: Store, clock: ManualClock, connect: Callable[[], Store]) -> None:
        asked = answered(store)
        given = store.request(asked).answer
        clock.advance(60)
        retraction = store.retract(asked, by="cli:bob")
        assert (retraction.answer, retraction.retracted_by, retraction.retracted_at) == (given, "cli:bob", clock.now)
        old = connect().request(asked)
        assert (old.answer, old.retraction, old.open, old.given) == (None, retraction, False, given)

    def test_the_question_is_asked_again_as_it_was(self, store: Store, clock: ManualClock) -> None:
        asked = answered(store, expires_in=3600)
        before = store.request(asked)
        clock.advance(60)
        replaced_by = store.retract(asked, by="cli:bob").replaced_by
        new = store.request(replaced_by)
        assert (new.id, new.open, new.replaces, new.occurrence) == (again(asked), True, asked, 1)
        assert (new.created_at, new.expires_at) == (clock.now, before.expires_at)
        same = replace(new, id=asked, occurrence=0, created_at=before.created_at, replaces=None, answer=before.answer)
        assert same == before
        assert [request.id for request in store.open_requests()] == [replaced_by]
        assert [request.id for request in store.requests(before.execution_id)] == [asked, replaced_by]
        assert store.next_deadline() == before.expires_at

    def test_the_events(self, store: Store, clock: ManualClock) -> None:
        asked = answered(store)
        clock.advance(5)
        store.retract(asked, by="cli:bob")
        retracted, interrupt = store.events(store.request(asked).execution_id)[-2:]
        assert (retracted.key, retracted.type) == (f"retraction:{asked}", EventType.RETRACTED)
        assert retracted.data == {
            "request_id": asked,
            "outcome": "approved",
            "answered_by": "cli:ann",
            "retracted_by": "cli:bob",
            "replaced_by": again(asked),
        }
        assert (interrupt.key, interrupt.type) == (f"request:{again(asked)}", EventType.INTERRUPT)
        assert interrupt.data["request_id"] == again(asked)
        assert (retracted.at, interrupt.at) == (clock.now, clock.now)

    def test_again_it_is_the_first(self, store: Store, clock: ManualClock) -> None:
        asked = answered(store)
        first = store.retract(asked, by="cli:bob")
        execution_id = store.request(asked).execution_id
        before = snapshot(store, execution_id)
        clock.advance(5)
        assert store.retract(asked, by="api") == first
        assert snapshot(store, execution_id) == before
        store.record_answers([deny(first.replaced_by)], by="cli:ann")
        assert store.retract(asked, by="api") == first

    def test_the_next_answer_can_be_retracted_too(self, store: Store) -> None:
        asked = answered(store)
        for number in (1, 2, 3):
            store.retract(RequestId(asked if number == 1 else again(asked, number - 1)), by="me")
            store.record_answers([approve(again(asked, number))], by="me")
        assert [request.open for request in store.requests(store.request(asked).execution_id)] == [False] * 4
        assert store.request(again(asked, 3)).answer is not None

    def test_the_same_question_of_a_tool_that_was_asked_twice(self, store: Store, journal: Journal) -> None:
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {"path": "a.md"}, None)
        fields = {"source": RequestSource.TOOL, "kind": RequestKind.INPUT}
        first = gate_request(journal, **fields)
        second = replace(first, id=RequestId(f"{first.id}-1"), occurrence=1)
        journal.pause_call(FIRST, [first, second])
        assert journal.park([frozenset({first.id, second.id})])
        text = [NewAnswer(each.id, Outcome.ANSWERED, {"text": "x"}) for each in (first, second)]
        store.record_answers(text, by="me")
        new = [store.retract(each.id, by="me").replaced_by for each in (first, second)]
        assert len({first.id, second.id, *new}) == 4
        assert [request.id for request in store.open_requests()] == new


class TestStatus:
    def test_an_execution_that_had_nothing_else_to_go_on_with_waits_again(self, store: Store) -> None:
        asked = answered(store)
        execution_id = store.request(asked).execution_id
        assert store.execution(execution_id).status is Status.QUEUED
        store.retract(asked, by="me")
        assert store.execution(execution_id).status is Status.WAITING
        store.record_answers([approve(again(asked))], by="me")
        assert store.execution(execution_id).status is Status.QUEUED

    def test_one_that_was_answered_otherwise_too_goes_on(self, store: Store) -> None:
        execution, ids = parked(store, count=2)
        store.record_answers([approve(request_id) for request_id in ids], by="me")
        store.retract(ids[0], by="me")
        assert store.execution(execution.id).status is Status.QUEUED
        store.retract(ids[1], by="me")
        assert store.execution(execution.id).status is Status.WAITING

    def test_one_that_still_waited_waits(self, store: Store) -> None:
        journal = journal_of(store, begin(store))
        ids = ask(journal, count=2)
        store.record_answers([approve(ids[0])], by="me")
        assert journal.park([frozenset(ids)])
        store.retract(ids[0], by="me")
        assert store.execution(journal.claim.execution_id).status is Status.WAITING
        assert [request.id for request in store.open_requests()] == [ids[1], again(ids[0])]

    def test_one_that_was_given_back_goes_on(self, store: Store) -> None:
        journal = journal_of(store, begin(store))
        [asked] = ask(journal)
        store.record_answers([approve(asked)], by="me")
        journal.release()
        store.retract(asked, by="me")
        assert store.execution(journal.claim.execution_id).status is Status.QUEUED

    def test_one_that_was_answered_in_an_earlier_wait_too_waits(self, store: Store, workers: FakeWorkers) -> None:
        execution, ids = parked(store, count=2)
        store.record_answers([approve(ids[0])], by="me")
        journal = driven(store, workers, ids[0])
        journal.start_call(FIRST, {"path": "a.md"}, None, answered=[ids[0]])
        finish_call(journal)
        assert journal.park([frozenset({ids[1]})])
        store.record_answers([approve(ids[1])], by="me")
        store.retract(ids[1], by="me")
        assert store.execution(execution.id).status is Status.WAITING

    def test_its_session_is_interrupted_again(self, store: Store) -> None:
        asked = answered(store, session_id="s")
        assert str(store.sessions.get("writer", "s").status) == "running"
        store.retract(asked, by="me")
        assert str(store.sessions.get("writer", "s").status) == "interrupted"
        assert [request.id for request in store.sessions.open_requests("writer", "s")] == [again(asked)]
        assert store.sessions.request("writer", "s", asked).retraction is not None

    def test_a_running_one_cannot_park_on_the_question_before(self, store: Store) -> None:
        journal = journal_of(store, begin(store))
        [asked] = ask(journal)
        store.record_answers([approve(asked)], by="me")
        store.retract(asked, by="me")
        assert not journal.park([frozenset({asked})])
        assert journal.park([frozenset({again(asked)})])
        waiting = store.events(journal.claim.execution_id)[-1]
        assert waiting.data["request_ids"] == [again(asked)]


class TestDeadline:
    def test_the_old_one_holds(self, store: Store, clock: ManualClock) -> None:
        asked = answered(store, expires_in=60)
        clock.advance(50)
        store.retract(asked, by="me")
        clock.advance(10)
        [expired] = store.settle_overdue()
        assert (expired.request_id, expired.outcome, expired.answered_at) == (again(asked), Outcome.EXPIRED, clock.now)

    def test_one_that_has_passed_decides_at_once(self, store: Store, clock: ManualClock) -> None:
        asked = answered(store, expires_in=60)
        clock.advance(90)
        new = store.request(store.retract(asked, by="me").replaced_by)
        assert new.answer is not None
        assert (new.answer.outcome, new.answer.answered_by) == (Outcome.EXPIRED, "timeout")
        assert (new.answer.answered_at, new.answer.recorded_at) == (clock.now - 30, clock.now)
        assert store.execution(new.execution_id).status is Status.QUEUED


class TestAnswering:
    @pytest.mark.parametrize("answer", [approve, deny])
    def test_the_old_request_takes_none(self, store: Store, answer: Callable[[RequestId], NewAnswer]) -> None:
        asked = answered(store)
        retraction = store.retract(asked, by="cli:bob")
        before = snapshot(store, store.request(asked).execution_id)
        with pytest.raises(AnswerRetracted) as refused:
            store.record_answers([answer(asked)], by="cli:ann", claim_for=W2)
        error = refused.value
        assert (error.outcome, error.answered_by) == ("retracted", "cli:ann")
        assert (error.retracted_by, error.retracted_at, error.replaced_by) == (
            *("cli:bob", retraction.retracted_at, again(asked)),
        )
        assert snapshot(store, store.request(asked).execution_id) == before

    def test_it_refuses_what_comes_with_it(self, store: Store) -> None:
        _, ids = parked(store, count=2)
        store.record_answers([approve(ids[0])], by="me")
        store.retract(ids[0], by="me")
        with pytest.raises(AnswerRetracted):
            store.record_answers([approve(ids[1]), approve(ids[0])], by="me")
        assert store.request(ids[1]).open


def test_the_grant_that_was_given_with_it_is_revoked(store: Store, clock: ManualClock) -> None:
    _, [asked] = parked(store)
    terms = NewGrant("file_read(docs/*)", GrantScope.AGENT, 3600, "digest-of-tool")
    [answer] = store.record_answers([replace(approve(asked), grant=terms)], by="cli:ann").answers
    assert answer.grant_id is not None
    clock.advance(60)
    store.retract(asked, by="cli:bob")
    grant = store.grants.get(answer.grant_id)
    assert (grant.ended, grant.ended_by, grant.ended_at) == (GrantEnd.REVOKED, "cli:bob", clock.now)
    assert store.request(asked).given == answer
    _, [again_asked] = parked(store)
    [answer] = store.record_answers([replace(approve(again_asked), grant=terms)], by="cli:ann").answers
    assert answer.grant_id not in (None, grant.id)
    clock.advance(7200)
    store.retract(again_asked, by="cli:bob")
    assert answer.grant_id is not None
    assert store.grants.get(answer.grant_id).ended is GrantEnd.EXPIRED


class TestRefused:
    def test_unknown(self, store: Store) -> None:
        with pytest.raises(UnknownRequest):
            store.retract(RequestId("r-none"), by="me")

    def test_open(self, store: Store) -> None:
        _, [asked] = parked(store)
        with pytest.raises(NothingToRetract):
            store.retract(asked, by="me")
        assert store.request(asked).open

    @pytest.mark.parametrize("by", ["policy", "script"])
    def test_no_human_gave_it(self, store: Store, by: str) -> None:
        _, [asked] = parked(store)
        store.record_answers([deny(asked)], by=by)
        with pytest.raises(NotRetractable, match=by):
            store.retract(asked, by="me")

    def test_expired_and_cancelled(self, store: Store, clock: ManualClock) -> None:
        _, [asked] = parked(store, expires_in=10)
        clock.advance(20)
        store.settle_overdue()
        with pytest.raises(NotRetractable):
            store.retract(asked, by="me")
        journal = journal_of(store, begin(store))
        [cancelled] = ask(journal)
        abort(journal, by="cli:ann")
        with pytest.raises(NotRetractable):
            store.retract(cancelled, by="me")

    @pytest.mark.parametrize("then", ["started", "finished", "paused", "dead", "put back", "ended"])
    def test_the_call_acted_on_it(self, store: Store, workers: FakeWorkers, then: str) -> None:
        asked = answered(store)
        journal = driven(store, workers, asked)
        if then != "ended":
            journal.start_call(FIRST, {"path": "a.md"}, None, answered=[asked])
        if then == "finished":
            finish_call(journal)
        elif then == "paused":
            question = gate_request(journal, id=RequestId("q"), source=RequestSource.TOOL, kind=RequestKind.INPUT)
            journal.pause_call(FIRST, [question], answered=[asked])
            assert journal.park([frozenset({question.id})])
        elif then == "dead":
            taken_over(store, workers, journal, workers.start("w3"))
        elif then == "put back":
            journal.put_back(FIRST, CallState.PROPOSED)
        elif then == "ended":
            closed = (FIRST, CallState.FINISHED, CallOutcome.NOT_RUN, "not executed")
            journal.finish(ExecutionEnd(Status.ABORTED, error="limit", closings=(closed,)))
        before = snapshot(store, journal.claim.execution_id)
        with pytest.raises(NotRetractable):
            store.retract(asked, by="me")
        assert snapshot(store, journal.claim.execution_id) == before

    def test_a_denial_that_the_model_was_told_of(self, store: Store, workers: FakeWorkers) -> None:
        _, [asked] = parked(store)
        store.record_answers([deny(asked)], by="me")
        journal = driven(store, workers, asked)
        closed = (FIRST, CallState.FINISHED, CallOutcome.DENIED, "Action denied by user", tool("no"))
        journal.finish_call(*closed, answered=[asked])
        with pytest.raises(NotRetractable):
            store.retract(asked, by="me")

    def test_an_approval_after_which_the_gate_asked_again(self, store: Store, workers: FakeWorkers) -> None:
        asked = answered(store)
        journal = driven(store, workers, asked)
        other = gate_request(journal, id=RequestId("other"), digest="another", occurrence=1)
        journal.pause_call(FIRST, [other], answered=[asked])
        with pytest.raises(NotRetractable):
            store.retract(asked, by="me")
        store.record_answers([approve(other.id)], by="me")
        assert store.retract(other.id, by="me").answer.request_id == other.id


class TestTheCall:
    """Once an answer was retracted its call does nothing that was decided by it."""

    @pytest.fixture
    def asked(self, store: Store) -> RequestId:
        journal = journal_of(store, begin(store))
        [asked] = ask(journal)
        store.record_answers([approve(asked)], by="cli:ann")
        self.journal = journal
        return asked

    def _refused(self, store: Store, asked: RequestId, write: Callable[[Journal], None]) -> None:
        store.retract(asked, by="cli:bob")
        before = snapshot(store, self.journal.claim.execution_id)
        with pytest.raises(AnswerRetracted, match=str(again(asked))):
            write(self.journal)
        assert snapshot(store, self.journal.claim.execution_id) == before

    def test_it_is_not_started(self, store: Store, asked: RequestId) -> None:
        self._refused(store, asked, lambda j: j.start_call(FIRST, {"path": "a.md"}, None, answered=[asked]))

    def test_nor_closed(self, store: Store, asked: RequestId) -> None:
        closed = (FIRST, CallState.FINISHED, CallOutcome.DENIED, "no", tool("no"))
        self._refused(store, asked, lambda j: j.finish_call(*closed, answered=[asked]))

    def test_nor_asks(self, store: Store, asked: RequestId) -> None:
        other = gate_request(self.journal, id=RequestId("other"))
        self._refused(store, asked, lambda j: j.pause_call(FIRST, [other], answered=[asked]))

    def test_nor_when_the_next_answer_is_there(self, store: Store, asked: RequestId) -> None:
        store.retract(asked, by="cli:bob")
        store.record_answers([deny(again(asked))], by="cli:ann")
        self._refused(store, asked, lambda j: j.start_call(FIRST, {"path": "a.md"}, None, answered=[asked]))

    def test_the_next_answer_starts_it(self, store: Store, asked: RequestId) -> None:
        store.retract(asked, by="cli:bob")
        store.record_answers([approve(again(asked))], by="cli:ann")
        self.journal.start_call(FIRST, {"path": "a.md"}, None, answered=[again(asked)])
        with pytest.raises(NotRetractable):
            store.retract(again(asked), by="cli:bob")
        assert types_of(store, self.journal.claim.execution_id).count("retracted") == 1

    def test_of_an_end_the_new_question_is_cancelled(self, store: Store, asked: RequestId) -> None:
        store.retract(asked, by="cli:bob")
        abort(self.journal, by="cli:ann")
        new = store.request(again(asked))
        assert new.answer is not None
        assert new.answer.outcome is Outcome.CANCELLED
        assert store.request(asked).retraction is not None


class TestOldOnesOfACall:
    def test_of_questions_that_were_asked_together_one_is_retracted(self, store: Store, workers: FakeWorkers) -> None:
        """The call runs after both were answered; until then each can be retracted."""
        journal = journal_of(store, begin(store))
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {"path": "a.md"}, None)
        fields = {"source": RequestSource.TOOL, "kind": RequestKind.INPUT}
        requests = [gate_request(journal, id=RequestId(name), **fields) for name in ("one", "two")]
        journal.pause_call(FIRST, requests)
        one, two = (request.id for request in requests)
        assert journal.park([frozenset({one, two})])
        store.record_answers([NewAnswer(one, Outcome.ANSWERED, {"text": "x"})], by="me")
        store.retract(one, by="me")
        left = [NewAnswer(each, Outcome.ANSWERED, {"text": "y"}) for each in (two, again(one))]
        store.record_answers(left, by="me")
        later = driven(store, workers, one)
        later.start_call(FIRST, {"path": "a.md"}, None, answered=[two, again(one)])
        for used in (two, again(one)):
            with pytest.raises(NotRetractable):
                store.retract(used, by="me")

"""Any store: requests, their one answer, and what an answer does to its execution."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_md.errors import AnswerConflict, UnknownRequest
from agent_md.executions.execution import Claim
from agent_md.executions.ids import RequestId
from agent_md.executions.states import EventType, Outcome, RequestKind, Status
from agent_md.ports.store import NewAnswer, Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    W1,
    W2,
    abort,
    approve,
    ask,
    begin,
    deny,
    journal_of,
    parked,
    snapshot,
    succeed,
    types_of,
)
from tests.support.workers import FakeWorkers


def custom(request_id: RequestId, value: Any) -> NewAnswer:
    return NewAnswer(request_id, Outcome.ANSWERED, value)


class TestListing:
    def test_an_unknown_request(self, store: Store) -> None:
        with pytest.raises(UnknownRequest):
            store.request(RequestId("r-none"))

    def test_requests_of_one_execution_oldest_first(self, store: Store, clock: ManualClock) -> None:
        journal = journal_of(store, begin(store))
        ids = ask(journal, turn=0, count=11)
        clock.advance(-60)
        ids += ask(journal, turn=1)
        parked(store)
        store.record_answers([approve(ids[3])], by="me")
        assert [request.id for request in store.requests(journal.claim.execution_id)] == ids

    def test_open_requests_of_all_executions_oldest_first(self, store: Store) -> None:
        first, second = journal_of(store, begin(store)), journal_of(store, begin(store))
        ids = [*ask(first), *ask(second), *ask(first, turn=1)]
        assert [request.id for request in store.open_requests()] == ids
        store.record_answers([approve(ids[1])], by="me")
        assert [request.id for request in store.open_requests()] == [ids[0], ids[2]]

    def test_those_that_expire_first_come_first_where_that_is_wanted(self, store: Store) -> None:
        journal = journal_of(store, begin(store))
        late, never = ask(journal, expires_in=60), ask(journal, turn=1)
        soon, never_too = ask(journal, turn=2, expires_in=30), ask(journal, turn=3)
        wanted = [*soon, *late, *never, *never_too]
        assert [request.id for request in store.open_requests(by_deadline=True)] == wanted
        assert [request.id for request in store.open_requests(by_deadline=True, limit=2, offset=1)] == wanted[1:3]

    def test_how_many_are_open(self, store: Store) -> None:
        _, ids = parked(store, count=3)
        store.record_answers([approve(ids[0])], by="me")
        assert store.count_open_requests() == 2

    def test_pages_of_open_requests(self, store: Store) -> None:
        _, ids = parked(store, count=5)
        store.record_answers([approve(ids[0])], by="me")
        assert [r.id for r in store.open_requests(limit=2)] == ids[1:3]
        assert [r.id for r in store.open_requests(limit=2, offset=2)] == ids[3:]
        assert [r.id for r in store.open_requests(offset=3)] == ids[4:]
        assert store.open_requests(offset=4) == []

    def test_the_next_deadline(self, store: Store, clock: ManualClock) -> None:
        assert store.next_deadline() is None
        parked(store)
        assert store.next_deadline() is None
        parked(store, expires_in=60)
        _, [soon] = parked(store, expires_in=30)
        assert store.next_deadline() == clock.now + 30
        store.record_answers([approve(soon)], by="me")
        assert store.next_deadline() == clock.now + 60

    def test_a_deadline_that_passed_stays_the_next_until_it_is_settled(self, store: Store, clock: ManualClock) -> None:
        parked(store, expires_in=30)
        clock.advance(100)
        assert store.next_deadline() == clock.now - 70
        store.settle_overdue()
        assert store.next_deadline() is None


class TestRecording:
    def test_the_answer_is_kept(self, store: Store, clock: ManualClock) -> None:
        _, [asked] = parked(store)
        clock.advance(5)
        receipt = store.record_answers([approve(asked)], by="cli:me")
        assert (receipt.recorded, receipt.claim) == (True, None)
        [answer] = receipt.answers
        assert (answer.request_id, answer.outcome, answer.value) == (asked, Outcome.APPROVED, {"approved": True})
        assert (answer.answered_by, answer.answered_at, answer.digest) == ("cli:me", clock.now, None)
        assert answer.recorded_at == clock.now
        request = store.request(asked)
        assert (request.answer, request.open) == (answer, False)

    def test_the_digest_of_an_edited_action_is_kept(self, store: Store) -> None:
        _, [asked] = parked(store)
        edited = NewAnswer(asked, Outcome.APPROVED, {"approved": True, "args": {"path": "b"}}, digest="edited")
        [answer] = store.record_answers([edited], by="me").answers
        assert answer.digest == "edited"
        assert store.request(asked).answer == answer

    def test_the_event(self, store: Store, clock: ManualClock) -> None:
        waiting, [asked] = parked(store)
        clock.advance(5)
        store.record_answers([deny(asked)], by="cli:me")
        event = store.events(waiting.id)[-1]
        assert (event.key, event.type, event.message) == (f"answer:{asked}", EventType.RESUMED, "denied")
        assert event.at == clock.now
        assert event.data == {
            "request_id": asked,
            "outcome": "denied",
            "value": {"approved": False},
            "answered_by": "cli:me",
        }

    def test_several_at_once_come_back_in_their_order(self, store: Store) -> None:
        waiting, ids = parked(store, count=3)
        receipt = store.record_answers([deny(ids[2]), approve(ids[0])], by="me")
        assert [answer.request_id for answer in receipt.answers] == [ids[2], ids[0]]
        assert [store.request(i).open for i in ids] == [False, True, False]
        assert types_of(store, waiting.id).count("resumed") == 2

    @pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"z": 1, "a": ["🙂\x00", 2.5]}])
    def test_any_json_value_comes_back_as_it_was(self, store: Store, value: Any) -> None:
        waiting, [asked] = parked(store)
        [answer] = store.record_answers([custom(asked, value)], by="me").answers
        stored = store.request(asked).answer
        assert stored is not None
        logged = store.events(waiting.id)[-1].data["value"]
        assert [json.dumps(got) for got in (answer.value, stored.value, logged)] == [json.dumps(value)] * 3

    def test_unknown_requests(self, store: Store) -> None:
        with pytest.raises(UnknownRequest):
            store.record_answers([approve(RequestId("r-none"))], by="me")


class TestAllOrNone:
    def test_an_unknown_request_refuses_all(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        before = snapshot(store, waiting.id)
        with pytest.raises(UnknownRequest):
            store.record_answers([approve(asked), approve(RequestId("r-none"))], by="me", claim_for=W2)
        assert snapshot(store, waiting.id) == before

    def test_a_conflict_refuses_all(self, store: Store) -> None:
        waiting, [first, second] = parked(store, count=2)
        store.record_answers([approve(second)], by="me")
        before = snapshot(store, waiting.id)
        with pytest.raises(AnswerConflict):
            store.record_answers([approve(first), deny(second)], by="you", claim_for=W2)
        assert snapshot(store, waiting.id) == before

    def test_a_passed_deadline_refuses_all_but_is_recorded(self, store: Store, clock: ManualClock) -> None:
        journal = journal_of(store, begin(store))
        [lasting] = ask(journal)
        [late] = ask(journal, turn=1, expires_in=10)
        clock.advance(11)
        with pytest.raises(AnswerConflict):
            store.record_answers([approve(lasting), approve(late)], by="me")
        assert store.request(lasting).open
        answer = store.request(late).answer
        assert answer is not None
        assert answer.outcome is Outcome.EXPIRED

    def test_a_value_that_cannot_be_stored_refuses_all(self, store: Store) -> None:
        waiting, [first, second] = parked(store, count=2)
        before = snapshot(store, waiting.id)
        with pytest.raises(TypeError):
            store.record_answers([approve(first), custom(second, object())], by="me", claim_for=W2)
        assert snapshot(store, waiting.id) == before

    def test_what_is_new_beside_a_repeat_is_recorded(self, store: Store, clock: ManualClock) -> None:
        waiting, [first, second] = parked(store, count=2)
        [before] = store.record_answers([approve(first)], by="me").answers
        clock.advance(5)
        receipt = store.record_answers([approve(first), deny(second)], by="you")
        assert receipt.recorded is True
        assert receipt.answers == (before, store.request(second).answer)
        assert types_of(store, waiting.id).count("resumed") == 2


class TestFirstAnswerWins:
    def test_the_same_again_gives_the_first(self, store: Store, clock: ManualClock) -> None:
        waiting, [asked] = parked(store)
        first = store.record_answers([approve(asked)], by="me")
        before = snapshot(store, waiting.id)
        clock.advance(60)
        again = store.record_answers([approve(asked)], by="you")
        assert (again.answers, again.recorded, again.claim) == (first.answers, False, None)
        assert snapshot(store, waiting.id) == before

    def test_another_is_told_who_and_when(self, store: Store, clock: ManualClock) -> None:
        waiting, [asked] = parked(store)
        at = clock.now
        store.record_answers([approve(asked)], by="me")
        before = snapshot(store, waiting.id)
        clock.advance(60)
        with pytest.raises(AnswerConflict) as conflict:
            store.record_answers([deny(asked)], by="you")
        assert (conflict.value.outcome, conflict.value.answered_by) == ("approved", "me")
        assert conflict.value.answered_at == at
        assert snapshot(store, waiting.id) == before

    def test_with_the_arguments_that_were_shown_it_is_a_plain_approval(self, store: Store) -> None:
        _, [asked] = parked(store)
        shown, other = {"path": "a.md"}, {"path": "b.md"}
        store.record_answers([NewAnswer(asked, Outcome.APPROVED, {"approved": True, "args": shown})], by="me")
        assert not store.record_answers([approve(asked)], by="you").recorded
        for value in ({"approved": True, "args": other}, {"approved": True, "reason": "why not"}):
            with pytest.raises(AnswerConflict):
                store.record_answers([NewAnswer(asked, Outcome.APPROVED, value)], by="you")

    def test_with_the_same_edited_arguments_it_is_the_same(self, store: Store) -> None:
        _, [asked] = parked(store)
        edited = {"approved": True, "args": {"path": "b.md", "more": 1}}
        store.record_answers([NewAnswer(asked, Outcome.APPROVED, edited, "d1")], by="me")
        again = {"args": {"more": 1, "path": "b.md"}, "approved": True}
        assert not store.record_answers([NewAnswer(asked, Outcome.APPROVED, again)], by="you").recorded
        for value in ({"approved": True}, {"approved": True, "args": {"path": "b.md", "more": True}}):
            with pytest.raises(AnswerConflict):
                store.record_answers([NewAnswer(asked, Outcome.APPROVED, value)], by="you")

    def test_another_value_is_another_answer(self, store: Store) -> None:
        _, [asked] = parked(store)
        store.record_answers([custom(asked, {"text": "a"})], by="me")
        with pytest.raises(AnswerConflict):
            store.record_answers([custom(asked, {"text": "b"})], by="me")

    @pytest.mark.parametrize(("one", "other"), [(True, 1), (0, False), (None, ""), ([], {}), ("1", 1)])
    def test_values_that_only_look_alike_differ(self, store: Store, one: Any, other: Any) -> None:
        _, [asked] = parked(store)
        store.record_answers([custom(asked, {"x": one})], by="me")
        with pytest.raises(AnswerConflict):
            store.record_answers([custom(asked, {"x": other})], by="me")

    def test_another_outcome_is_another_answer(self, store: Store) -> None:
        _, [asked] = parked(store)
        store.record_answers([NewAnswer(asked, Outcome.APPROVED, None)], by="me")
        with pytest.raises(AnswerConflict):
            store.record_answers([NewAnswer(asked, Outcome.DENIED, None)], by="me")

    def test_the_order_of_keys_makes_no_difference(self, store: Store) -> None:
        _, [asked] = parked(store)
        store.record_answers([custom(asked, {"a": 1, "b": {"c": 2, "d": 3}})], by="me")
        again = store.record_answers([custom(asked, {"b": {"d": 3, "c": 2}, "a": 1})], by="me")
        assert again.recorded is False

    def test_the_digest_makes_no_difference(self, store: Store) -> None:
        _, [asked] = parked(store)
        first = store.record_answers([NewAnswer(asked, Outcome.APPROVED, {"approved": True}, digest="a")], by="me")
        again = store.record_answers([NewAnswer(asked, Outcome.APPROVED, {"approved": True}, digest="b")], by="me")
        assert (again.answers, again.recorded) == (first.answers, False)

    def test_the_same_again_after_its_deadline(self, store: Store, clock: ManualClock) -> None:
        _, [asked] = parked(store, expires_in=10)
        first = store.record_answers([approve(asked)], by="me")
        clock.advance(100)
        again = store.record_answers([approve(asked)], by="me")
        assert (again.answers, again.recorded) == (first.answers, False)

    def test_the_same_again_after_the_end(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        first = store.record_answers([approve(asked)], by="me", claim_for=W1)
        assert first.claim is not None
        succeed(store.journal(first.claim))
        before = snapshot(store, waiting.id)
        again = store.record_answers([approve(asked)], by="me", claim_for=W2)
        assert (again.answers, again.recorded, again.claim) == (first.answers, False, None)
        assert snapshot(store, waiting.id) == before

    def test_another_after_the_end(self, store: Store) -> None:
        _, [asked] = parked(store)
        first = store.record_answers([approve(asked)], by="me", claim_for=W1)
        assert first.claim is not None
        succeed(store.journal(first.claim))
        with pytest.raises(AnswerConflict) as conflict:
            store.record_answers([deny(asked)], by="you")
        assert (conflict.value.outcome, conflict.value.answered_by) == ("approved", "me")

    def test_a_cancelled_request_takes_no_answer(self, store: Store, clock: ManualClock) -> None:
        journal = journal_of(store, begin(store))
        [asked] = ask(journal)
        at = clock.now
        abort(journal, "cli:me")
        clock.advance(5)
        with pytest.raises(AnswerConflict) as conflict:
            store.record_answers([approve(asked)], by="you")
        assert (conflict.value.outcome, conflict.value.answered_by) == ("cancelled", "cli:me")
        assert conflict.value.answered_at == at

    @pytest.mark.parametrize("kind", RequestKind)
    def test_of_every_kind(self, store: Store, kind: RequestKind) -> None:
        journal = journal_of(store, begin(store))
        [asked] = ask(journal, kind=kind)
        store.record_answers([custom(asked, "a")], by="me")
        with pytest.raises(AnswerConflict):
            store.record_answers([custom(asked, "b")], by="me")


class TestWaking:
    def test_a_waiting_one_is_queued(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        store.record_answers([approve(asked)], by="me")
        execution = store.execution(waiting.id)
        assert (execution.status, execution.worker, execution.epoch) == (Status.QUEUED, None, waiting.epoch)

    def test_one_answer_of_several_is_enough(self, store: Store) -> None:
        waiting, ids = parked(store, count=3)
        store.record_answers([approve(ids[1])], by="me")
        assert store.execution(waiting.id).status is Status.QUEUED

    def test_a_waiting_one_is_taken_by_its_recorder(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        receipt = store.record_answers([approve(asked)], by="me", claim_for=W2)
        assert receipt.claim == Claim(waiting.id, W2, waiting.epoch + 1)
        execution = store.execution(waiting.id)
        assert (execution.status, execution.worker, execution.epoch) == (Status.RUNNING, W2, waiting.epoch + 1)
        assert execution.attempts == 0

    def test_a_queued_one_is_taken_too(self, store: Store) -> None:
        waiting, [first, second] = parked(store, count=2)
        store.record_answers([approve(first)], by="me")
        receipt = store.record_answers([approve(second)], by="me", claim_for=W2)
        assert receipt.claim == Claim(waiting.id, W2, waiting.epoch + 1)
        assert store.execution(waiting.id).status is Status.RUNNING

    def test_a_queued_one_is_taken_by_a_repeat_too(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        store.record_answers([approve(asked)], by="me")
        receipt = store.record_answers([approve(asked)], by="me", claim_for=W2)
        assert (receipt.recorded, receipt.claim) == (False, Claim(waiting.id, W2, waiting.epoch + 1))

    def test_a_queued_one_stays_queued_without_a_worker(self, store: Store) -> None:
        waiting, [first, second] = parked(store, count=2)
        store.record_answers([approve(first)], by="me")
        assert store.record_answers([approve(second)], by="me").claim is None
        assert store.execution(waiting.id).status is Status.QUEUED

    @pytest.mark.parametrize("claim_for", [None, W1, W2])
    def test_a_running_one_is_left_to_its_driver(self, store: Store, claim_for: Any) -> None:
        running = begin(store)
        journal = journal_of(store, running)
        [asked] = ask(journal)
        before = store.execution(running.id)
        receipt = store.record_answers([approve(asked)], by="me", claim_for=claim_for)
        assert (receipt.recorded, receipt.claim) == (True, None)
        assert store.execution(running.id) == before
        journal.release()

    def test_no_other_execution_moves(self, store: Store) -> None:
        other, _ = parked(store)
        _, [asked] = parked(store)
        store.record_answers([approve(asked)], by="me")
        assert store.execution(other.id) == other


class TestDeadlines:
    def test_just_before_its_deadline_an_answer_counts(self, store: Store, clock: ManualClock) -> None:
        _, [asked] = parked(store, expires_in=10)
        clock.advance(9.999)
        assert store.settle_overdue() == []
        assert store.record_answers([approve(asked)], by="me").recorded

    @pytest.mark.parametrize("late", [0, 0.001, 3600])
    def test_from_its_deadline_on_it_expires(self, store: Store, clock: ManualClock, late: float) -> None:
        waiting, [asked] = parked(store, expires_in=10)
        clock.advance(10 + late)
        [answer] = store.settle_overdue()
        assert (answer.request_id, answer.outcome, answer.value) == (asked, Outcome.EXPIRED, None)
        assert answer.answered_by == "timeout"
        assert answer.answered_at == store.request(asked).expires_at
        assert (answer.recorded_at, store.events(waiting.id)[-1].at) == (clock.now, clock.now)
        assert store.request(asked).answer == answer
        event = store.events(waiting.id)[-1]
        assert (event.key, event.type, event.message) == (f"answer:{asked}", EventType.RESUMED, "expired")
        assert event.data == {
            "request_id": asked,
            "outcome": "expired",
            "value": None,
            "answered_by": "timeout",
        }

    @pytest.mark.parametrize("late", [0, 0.001, 3600])
    @pytest.mark.parametrize("claim_for", [None, W2])
    def test_a_late_answer_records_the_expiry_and_loses(
        self, store: Store, clock: ManualClock, late: float, claim_for: Any
    ) -> None:
        waiting, [asked] = parked(store, expires_in=10)
        clock.advance(10 + late)
        with pytest.raises(AnswerConflict) as conflict:
            store.record_answers([approve(asked)], by="me", claim_for=claim_for)
        answer = store.request(asked).answer
        assert answer is not None
        assert (answer.outcome, answer.value, answer.answered_by) == (Outcome.EXPIRED, None, "timeout")
        assert (conflict.value.outcome, conflict.value.answered_by) == ("expired", "timeout")
        assert conflict.value.answered_at == answer.answered_at == store.request(asked).expires_at
        assert conflict.value.recorded_at == answer.recorded_at == clock.now
        assert types_of(store, waiting.id)[-1] == "resumed"
        assert store.execution(waiting.id).status is Status.QUEUED
        assert store.settle_overdue() == []

    def test_a_late_answer_ends_no_request_that_still_has_time(self, store: Store, clock: ManualClock) -> None:
        _, [asked] = parked(store, expires_in=10)
        _, [lasting] = parked(store, expires_in=20)
        clock.advance(15)
        with pytest.raises(AnswerConflict):
            store.record_answers([approve(asked)], by="me")
        assert store.request(lasting).open

    def test_settled_once(self, store: Store, clock: ManualClock) -> None:
        waiting, [asked] = parked(store, expires_in=10)
        clock.advance(10)
        [first] = store.settle_overdue()
        before = snapshot(store, waiting.id)
        clock.advance(10)
        assert store.settle_overdue() == []
        assert snapshot(store, waiting.id) == before
        with pytest.raises(AnswerConflict) as conflict:
            store.record_answers([approve(asked)], by="me")
        assert conflict.value.answered_at == first.answered_at

    def test_every_overdue_request_of_every_execution(self, store: Store, clock: ManualClock) -> None:
        _, ids = parked(store, count=2, expires_in=10)
        _, [also] = parked(store, expires_in=5)
        _, [lasting] = parked(store, expires_in=60)
        _, [eternal] = parked(store)
        _, [answered] = parked(store, expires_in=10)
        store.record_answers([approve(answered)], by="me")
        clock.advance(10)
        assert {answer.request_id for answer in store.settle_overdue()} == {*ids, also}
        assert [request.id for request in store.open_requests()] == [lasting, eternal]

    def test_a_waiting_execution_is_woken(self, store: Store, clock: ManualClock) -> None:
        waiting, _ = parked(store, expires_in=10)
        other, _ = parked(store, expires_in=60)
        clock.advance(10)
        store.settle_overdue()
        execution = store.execution(waiting.id)
        assert (execution.status, execution.worker, execution.epoch) == (Status.QUEUED, None, waiting.epoch)
        assert store.execution(other.id) == other

    def test_a_running_execution_goes_on(self, store: Store, clock: ManualClock, workers: FakeWorkers) -> None:
        running = begin(store)
        ask(journal_of(store, running), expires_in=10)
        before = store.execution(running.id)
        workers.kill(W1)
        clock.advance(10)
        assert len(store.settle_overdue()) == 1
        assert store.execution(running.id) == before

    def test_a_queued_execution_stays_queued(self, store: Store, clock: ManualClock) -> None:
        running = begin(store)
        journal = journal_of(store, running)
        ask(journal, expires_in=10)
        journal.release()
        before = store.execution(running.id)
        clock.advance(10)
        assert len(store.settle_overdue()) == 1
        assert store.execution(running.id) == before

    def test_without_anything_overdue_nothing_happens(self, store: Store) -> None:
        waiting, _ = parked(store, expires_in=10)
        before = snapshot(store, waiting.id)
        assert store.settle_overdue() == []
        assert snapshot(store, waiting.id) == before

    def test_two_hundred_overdue_ones(self, store: Store, clock: ManualClock) -> None:
        waiting, ids = parked(store, count=200, expires_in=1)
        clock.advance(1)
        assert {answer.request_id for answer in store.settle_overdue()} == set(ids)
        assert types_of(store, waiting.id).count("resumed") == 200

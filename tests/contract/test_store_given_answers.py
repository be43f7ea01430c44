"""Any store: answers over all executions."""

from __future__ import annotations

from typing import Any

from agent_md.executions.given_answers import AnswerFilter
from agent_md.executions.ids import RequestId
from agent_md.executions.states import Outcome
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import W1, abort, approve, begin, deny, journal_of, parked, succeed


def decided(store: Store, clock: ManualClock) -> list[RequestId]:
    """Five requests: approved, denied, answered by nobody in time, open, and cancelled by the end."""
    _, (approved, denied) = parked(store, count=2, agent="writer")
    _, (expired,) = parked(store, expires_in=60, agent="reader", session_id="s")
    _, (open_one,) = parked(store, agent="reader")
    ended, (cancelled,) = parked(store, agent="writer", session_id="t")
    clock.advance(10)
    store.record_answers([approve(approved)], by="cli:ann")
    clock.advance(10)
    store.record_answers([deny(denied)], by="http:bob:x")
    clock.advance(100)
    store.settle_overdue()
    claim = store.claim_to_cancel(ended.id, W1)
    assert claim is not None
    abort(store.journal(claim), by="cli:bob")
    return [approved, denied, expired, open_one, cancelled]


def test_they_come_newest_first_and_can_be_filtered(store: Store, clock: ManualClock) -> None:
    approved, denied, expired, _, cancelled = decided(store, clock)
    first = store.request(approved).execution_id

    def found(limit: int | None = None, **wanted: Any) -> list[RequestId]:
        answers = store.given_answers(AnswerFilter(**wanted), limit=limit)
        assert all(each.request == store.request(each.answer.request_id) for each in answers)
        return [each.answer.request_id for each in answers]

    assert found() == [cancelled, expired, denied, approved]
    assert found(limit=2) == [cancelled, expired]
    assert found(agents=["reader"]) == [expired]
    assert found(agents=["reader", "writer"], execution_id=first) == [denied, approved]
    assert found(agents=[]) == []
    assert found(outcomes=[Outcome.APPROVED, Outcome.EXPIRED]) == [expired, approved]
    assert found(by="ann") == found(by="cli:ann") == [approved]
    assert found(by="bob") == [cancelled]
    assert found(by="bob:x") == [denied]
    assert found(by="cli") == found(by="%") == found(by="") == []
    assert found(by="timeout") == [expired]
    assert found(since=store.given_answers(AnswerFilter(by="bob:x"))[0].answer.answered_at) == [
        *(cancelled, expired, denied)
    ]


def test_one_that_was_retracted_is_there_with_who_and_when(store: Store, clock: ManualClock) -> None:
    _, (request,) = parked(store)
    store.record_answers([approve(request)], by="cli:ann")
    clock.advance(5)
    store.retract(request, by="cli:bob")
    (given,) = store.given_answers(AnswerFilter())
    assert (given.answer.outcome, given.answer.answered_by) == (Outcome.APPROVED, "cli:ann")
    assert (given.retracted_by, given.retracted_at) == ("cli:bob", clock.now)


def test_of_removed_executions_stays_who_when_and_what(store: Store, clock: ManualClock) -> None:
    old, (request,) = parked(store)
    store.record_answers([approve(request)], by="cli:ann", claim_for=W1)
    (before,) = store.given_answers(AnswerFilter())
    succeed(journal_of(store, old))
    clock.advance(1)
    begin(store)
    removable = store.retention.removable(clock.now)
    assert store.retention.remove_some(removable)[0] == [old.id]
    (left,) = store.given_answers(AnswerFilter(agents=["writer"], by="ann", execution_id=old.id))
    assert (left.execution_id, left.agent, left.request) == (old.id, "writer", None)
    kept, whole = left.answer, before.answer
    assert (kept.request_id, kept.outcome, kept.value) == (whole.request_id, whole.outcome, whole.value)
    assert (kept.answered_by, kept.answered_at) == (whole.answered_by, whole.answered_at)
    assert store.given_answers(AnswerFilter(by="bob")) == []

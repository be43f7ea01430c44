"""Any store: grants are given with an answer, hold for what they were given for, and end once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from agent_md.errors import AnswerConflict, GrantLapsed, UnknownGrant
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.grants import Grant, GrantEnd, GrantId, GrantOffer, GrantScope, NewGrant
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.states import Decision, Outcome, Status
from agent_md.ports.store import NewAnswer, Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    FIRST,
    SPEC,
    W1,
    W2,
    approve,
    ask,
    begin,
    deny,
    gate_request,
    journal_of,
    parked,
    proposal,
    record,
    succeed,
    taken_over,
)
from tests.support.workers import FakeWorkers

HOUR = 3600.0
TERMS = NewGrant("file_read(docs/*)", GrantScope.EXECUTION, 8 * HOUR, "digest-of-tool", "kit")


def allowing(request_id: RequestId, **terms: Any) -> NewAnswer:
    return NewAnswer(
        request_id,
        Outcome.APPROVED,
        {"approved": True, "remember": {"rule": terms.get("rule", TERMS.rule)}},
        grant=dataclasses.replace(TERMS, **terms),
    )


def given(store: Store, *, by: str = "cli:ann", terms: dict[str, Any] | None = None, **execution: Any) -> Grant:
    """A grant, with the execution in which it was given, that W1 drives on."""
    _, [asked] = parked(store, **execution)
    [answer] = store.record_answers([allowing(asked, **(terms or {}))], by=by, claim_for=W1).answers
    assert answer.grant_id is not None
    return store.grants.get(answer.grant_id)


def usable(store: Store, execution: Execution | ExecutionId) -> list[GrantId]:
    found = store.grants.usable(execution if isinstance(execution, int) else execution.id)
    return [grant.id for grant in found]


def asks(store: Store, execution: Execution | Claim, *grants: GrantId, turn: int = 1) -> bool:
    """Whether a guarded call that these grants fit asks."""
    journal = journal_of(store, execution)
    position = Position(turn, 0)
    request = gate_request(journal, position)
    record(journal, turn, [proposal(turn, decision=Decision.ASK, request=request, grants=grants)])
    call = store.call(journal.claim.execution_id, position)
    assert call is not None
    opened = request.id in [each.id for each in store.requests(journal.claim.execution_id)]
    assert opened == (call.decision is Decision.ASK) == (call.grant_id is None)
    return opened


class TestGiving:
    def test_it_is_what_was_said_by_whom_and_when(self, store: Store, clock: ManualClock) -> None:
        grant = given(store, session_id="s")
        execution = store.execution(grant.execution_id)
        assert grant == Grant(
            id=grant.id,
            agent="writer",
            execution_id=execution.id,
            session_id="s",
            rule="file_read(docs/*)",
            scope=GrantScope.EXECUTION,
            spec_digest=execution.spec_digest,
            tool_digest="digest-of-tool",
            tool_module="kit",
            given_by="cli:ann",
            given_at=clock.now,
            until=clock.now + 8 * HOUR,
        )

    def test_the_answer_and_its_event_name_it(self, store: Store) -> None:
        grant = given(store)
        [request] = store.requests(grant.execution_id)
        assert request.answer is not None
        assert request.answer.grant_id == grant.id
        [event] = [event for event in store.events(grant.execution_id) if event.type == "resumed"]
        assert event.data["grant_id"] == grant.id

    def test_an_answer_without_one_names_none(self, store: Store) -> None:
        _, [asked] = parked(store)
        [answer] = store.record_answers([approve(asked)], by="me").answers
        assert answer.grant_id is None
        assert store.grants.listed(ended=True) == []

    def test_the_same_answer_again_gives_no_other(self, store: Store) -> None:
        _, [asked] = parked(store)
        first = store.record_answers([allowing(asked)], by="me")
        again = store.record_answers([allowing(asked)], by="you")
        assert (again.recorded, again.answers) == (False, first.answers)
        assert len(store.grants.listed()) == 1

    def test_an_answer_that_loses_gives_none(self, store: Store) -> None:
        _, [asked] = parked(store)
        store.record_answers([approve(asked)], by="me")
        with pytest.raises(AnswerConflict):
            store.record_answers([allowing(asked)], by="you")
        assert store.grants.listed(ended=True) == []

    def test_of_answers_of_which_one_loses_none_gives_a_grant(self, store: Store) -> None:
        _, [first, second] = parked(store, count=2)
        store.record_answers([deny(second)], by="me")
        with pytest.raises(AnswerConflict):
            store.record_answers([allowing(first), allowing(second)], by="you")
        assert store.grants.listed(ended=True) == []

    def test_a_late_answer_gives_none(self, store: Store, clock: ManualClock) -> None:
        _, [asked] = parked(store, expires_in=10)
        clock.advance(10)
        with pytest.raises(AnswerConflict):
            store.record_answers([allowing(asked)], by="me")
        assert store.grants.listed(ended=True) == []

    def test_equal_ones_are_one(self, store: Store, clock: ManualClock) -> None:
        _, ids = parked(store, count=3)
        receipt = store.record_answers([allowing(ids[0]), allowing(ids[1])], by="me")
        [grant] = store.grants.listed()
        assert {answer.grant_id for answer in receipt.answers} == {grant.id}
        clock.advance(HOUR)
        store.record_answers([allowing(ids[2])], by="you")
        extended = dataclasses.replace(grant, given_by="you", given_at=clock.now, until=clock.now + 8 * HOUR)
        assert store.grants.listed() == [extended]

    def test_a_shorter_one_shortens_nothing(self, store: Store) -> None:
        _, ids = parked(store, count=4)
        store.record_answers([allowing(ids[0])], by="me")
        [grant] = store.grants.listed()
        store.record_answers([allowing(ids[1], lasts=HOUR)], by="you")
        assert store.grants.listed() == [grant]
        store.record_answers([allowing(ids[2], lasts=None)], by="you")
        assert [each.until for each in store.grants.listed()] == [None]
        store.record_answers([allowing(ids[3])], by="me")
        assert [each.until for each in store.grants.listed()] == [None]

    @pytest.mark.parametrize(
        "other",
        [{"rule": "file_read(docs/a)"}, {"scope": GrantScope.AGENT}, {"tool_digest": "other"}],
        ids=["rule", "scope", "tool"],
    )
    def test_another_one_is_another(self, store: Store, other: dict[str, Any]) -> None:
        _, ids = parked(store, count=2)
        store.record_answers([allowing(ids[0]), allowing(ids[1], **other)], by="me")
        assert len(store.grants.listed()) == 2

    def test_one_that_has_ended_is_not_extended(self, store: Store, clock: ManualClock) -> None:
        _, ids = parked(store, count=3)
        store.record_answers([allowing(ids[0])], by="me")
        [first] = store.grants.listed()
        store.grants.revoke(first.id, by="me")
        store.record_answers([allowing(ids[1])], by="me")
        clock.advance(8 * HOUR)
        store.record_answers([allowing(ids[2])], by="me")
        ends = [grant.ended for grant in store.grants.listed(ended=True)]
        assert ends == [None, GrantEnd.EXPIRED, GrantEnd.REVOKED]

    def test_what_is_offered_is_kept_with_the_request(self, store: Store) -> None:
        journal = journal_of(store, begin(store))
        for turn, subjects in enumerate((("docs/a.md",), (), None)):
            offer = GrantOffer("file_read(docs/*)", "digest", subjects)
            [asked] = ask(journal, turn, offer=offer)
            assert store.request(asked).offer == offer
        [asked] = ask(journal, turn=3)
        assert store.request(asked).offer is None


class TestScope:
    def test_of_an_execution(self, store: Store) -> None:
        grant = given(store, session_id="s")
        assert usable(store, grant.execution_id) == [grant.id]
        assert usable(store, begin(store, session_id="s")) == []

    def test_of_a_session(self, store: Store) -> None:
        grant = given(store, session_id="s", terms={"scope": GrantScope.SESSION})
        assert usable(store, grant.execution_id) == [grant.id]
        assert usable(store, begin(store, session_id="s")) == [grant.id]
        for other in (
            begin(store),
            begin(store, session_id="t"),
            begin(store, session_id="s", agent="other"),
            begin(store, session_id="s", parent_id=grant.execution_id),
        ):
            assert usable(store, other) == []

    def test_of_no_session(self, store: Store) -> None:
        grant = given(store, terms={"scope": GrantScope.SESSION})
        assert usable(store, grant.execution_id) == usable(store, begin(store)) == []

    def test_of_an_agent(self, store: Store) -> None:
        grant = given(store, session_id="s", terms={"scope": GrantScope.AGENT})
        for one in (begin(store), begin(store, session_id="t"), begin(store, parent_id=grant.execution_id)):
            assert usable(store, one) == [grant.id]
        assert usable(store, begin(store, agent="other")) == []
        assert usable(store, begin(store, agent="Writer")) == []

    @pytest.mark.parametrize("scope", list(GrantScope))
    def test_of_another_version_of_the_agent_it_is_suspended(self, store: Store, scope: GrantScope) -> None:
        grant = given(store, session_id="s", terms={"scope": scope})
        assert usable(store, begin(store, session_id="s", spec=SPEC.replace("test", "best"))) == []
        assert usable(store, begin(store, session_id="s")) == ([] if scope is GrantScope.EXECUTION else [grant.id])
        assert [each.id for each in store.grants.listed()] == [grant.id]

    @pytest.mark.parametrize("end", ["delete", "expire"])
    def test_a_session_that_has_ended(self, store: Store, clock: ManualClock, end: str) -> None:
        grant = given(store, session_id="s", terms={"scope": GrantScope.SESSION, "lasts": None})
        succeed(journal_of(store, store.execution(grant.execution_id)))
        if end == "delete":
            store.sessions.delete("writer", "s", by="me")
        else:
            clock.advance(100)
            assert store.sessions.expire(50) == 1
        assert store.grants.get(grant.id).ended is GrantEnd.OVER
        assert store.grants.listed() == []
        again = begin(store, session_id="s")
        assert usable(store, again) == []
        assert asks(store, again, grant.id)
        assert store.grants.get(grant.id).ended is GrantEnd.OVER

    def test_a_turn_that_outlives_its_session(self, store: Store) -> None:
        grant = given(store, session_id="s", terms={"scope": GrantScope.SESSION})
        store.sessions.delete("writer", "s", by="me")
        begin(store, session_id="s")
        assert usable(store, grant.execution_id) == []

    def test_an_execution_that_has_ended(self, store: Store) -> None:
        grant = given(store)
        succeed(journal_of(store, store.execution(grant.execution_id)))
        assert store.grants.get(grant.id).ended is GrantEnd.OVER
        assert store.grants.listed() == []

    def test_oldest_first(self, store: Store) -> None:
        grants = [given(store, terms={"scope": GrantScope.AGENT, "rule": f"file_read({n})"}).id for n in range(11)]
        assert usable(store, begin(store)) == grants


class TestTime:
    def test_it_holds_before_its_end(self, store: Store, clock: ManualClock) -> None:
        grant = given(store, terms={"lasts": 10.0})
        clock.advance(9)
        assert usable(store, grant.execution_id) == [grant.id]
        assert not asks(store, store.execution(grant.execution_id), grant.id)
        clock.advance(1)
        assert usable(store, grant.execution_id) == []
        assert asks(store, store.execution(grant.execution_id), grant.id, turn=2)
        ended = store.grants.get(grant.id)
        assert (ended.ended, ended.ended_by, ended.ended_at) == (GrantEnd.EXPIRED, None, grant.until)

    def test_one_without_end(self, store: Store, clock: ManualClock) -> None:
        grant = given(store, terms={"lasts": None})
        clock.advance(1e9)
        store.settle_overdue()
        assert usable(store, grant.execution_id) == [grant.id]

    @pytest.mark.parametrize("seen_by", ["settle_overdue", "record_answers", "record_model_step", "revoke"])
    def test_one_that_was_seen_to_expire_never_comes_alive_again(
        self, store: Store, clock: ManualClock, seen_by: str
    ) -> None:
        grant = given(store, terms={"lasts": 10.0, "scope": GrantScope.AGENT})
        _, [asked] = parked(store)
        other = begin(store)
        clock.advance(10)
        see: dict[str, Callable[[], object]] = {
            "settle_overdue": store.settle_overdue,
            "record_answers": lambda: store.record_answers([approve(asked)], by="me"),
            "record_model_step": lambda: asks(store, other, grant.id),
            "revoke": lambda: store.grants.revoke(grant.id, by="me"),
        }
        see[seen_by]()
        clock.advance(-10)
        assert usable(store, grant.execution_id) == []
        assert asks(store, store.execution(grant.execution_id), grant.id)
        assert store.grants.get(grant.id).ended is GrantEnd.EXPIRED
        assert store.grants.listed() == []

    def test_it_does_not_hold_before_it_was_given(self, store: Store, clock: ManualClock) -> None:
        grant = given(store)
        clock.advance(-1)
        assert usable(store, grant.execution_id) == []
        assert asks(store, store.execution(grant.execution_id), grant.id)
        clock.advance(1)
        assert usable(store, grant.execution_id) == [grant.id]


class TestLifting:
    def test_the_first_that_holds_is_stored_with_the_decision(self, store: Store, clock: ManualClock) -> None:
        first = given(store, terms={"scope": GrantScope.AGENT})
        second = given(store, by="cli:bob", terms={"scope": GrantScope.AGENT, "rule": "file_read"})
        store.grants.revoke(first.id, by="me")
        execution = begin(store)
        assert not asks(store, execution, second.id, first.id, turn=0)
        call = store.call(execution.id, FIRST)
        assert call is not None
        assert (call.decision, call.grant_id) == (Decision.RUN, second.id)
        event = next(event for event in store.events(execution.id) if event.key == f"call:{FIRST}")
        assert event.data["decision"] == "run"
        assert event.data["grant"] == {"id": second.id, "rule": "file_read", "given_by": "cli:bob"}

    def test_what_asks_has_none(self, store: Store) -> None:
        execution = begin(store)
        assert asks(store, execution, turn=0)
        event = next(event for event in store.events(execution.id) if event.key == f"call:{FIRST}")
        assert "grant" not in event.data

    def test_one_of_another_execution_lifts_nothing_whatever_the_gate_says(self, store: Store) -> None:
        grant = given(store)
        assert asks(store, begin(store), grant.id)
        assert asks(store, begin(store), GrantId(99))

    def test_the_decision_stays_whatever_becomes_of_the_grant(self, store: Store, clock: ManualClock) -> None:
        grant = given(store)
        execution = store.execution(grant.execution_id)
        assert not asks(store, execution, grant.id)
        clock.advance(9 * HOUR)
        store.settle_overdue()
        assert not asks(store, execution, grant.id)  # the turn is there already
        journal_of(store, execution).start_call(Position(1, 0), {}, None, grant_id=grant.id)

    def test_a_call_that_has_not_begun_does_not_begin_once_it_is_revoked(
        self, store: Store, workers: FakeWorkers
    ) -> None:
        grant = given(store)
        journal = journal_of(store, store.execution(grant.execution_id))
        assert not asks(store, journal.claim, grant.id)
        store.grants.revoke(grant.id, by="cli:bob")
        for _ in range(2):
            with pytest.raises(GrantLapsed, match=f"grant {grant.id} was revoked by cli:bob"):
                journal.start_call(Position(1, 0), {}, None, grant_id=grant.id)
            journal = taken_over(store, workers, journal, W2 if journal.claim.worker == W1 else W1)
        call = store.call(grant.execution_id, Position(1, 0))
        assert call is not None
        assert (call.state, call.decision, call.grant_id) == ("proposed", Decision.RUN, grant.id)

    def test_what_was_asked_instead_begins_without_it(self, store: Store) -> None:
        grant = given(store)
        journal = journal_of(store, store.execution(grant.execution_id))
        assert not asks(store, journal.claim, grant.id)
        store.grants.revoke(grant.id, by="cli:bob")
        journal.start_call(Position(1, 0), {}, None)
        call = store.call(grant.execution_id, Position(1, 0))
        assert call is not None
        assert call.state == "started"


class TestRevoking:
    def test_it_is_kept_by_whom_and_when(self, store: Store, clock: ManualClock) -> None:
        grant = given(store)
        clock.advance(5)
        revoked = store.grants.revoke(grant.id, by="cli:bob")
        assert revoked == dataclasses.replace(grant, ended=GrantEnd.REVOKED, ended_by="cli:bob", ended_at=clock.now)
        clock.advance(5)
        assert store.grants.revoke(grant.id, by="api") == revoked == store.grants.get(grant.id)
        assert usable(store, grant.execution_id) == []

    def test_one_that_is_over_can_be_revoked_and_one_that_expired_stays_expired(
        self, store: Store, clock: ManualClock
    ) -> None:
        over, expired = given(store), given(store, terms={"lasts": 1.0})
        succeed(journal_of(store, store.execution(over.execution_id)))
        clock.advance(1)
        assert store.grants.revoke(over.id, by="me").ended is GrantEnd.REVOKED
        assert store.grants.revoke(expired.id, by="me").ended is GrantEnd.EXPIRED

    @pytest.mark.parametrize("number", [0, 7, -1, 2**63, 10**40])
    def test_an_unknown_one(self, store: Store, number: int) -> None:
        for look in (store.grants.get, lambda grant_id: store.grants.revoke(grant_id, by="me")):
            with pytest.raises(UnknownGrant):
                look(GrantId(number))

    def test_another_process_sees_it_at_once(self, connect: Callable[[], Store]) -> None:
        one, other = connect(), connect()
        grant = given(one)
        assert usable(other, grant.execution_id) == [grant.id]
        other.grants.revoke(grant.id, by="me")
        assert usable(one, grant.execution_id) == []


class TestListing:
    def test_newest_first_and_in_pages(self, store: Store) -> None:
        ids = [given(store, agent=agent).id for agent in "abca"]
        assert [grant.id for grant in store.grants.listed()] == ids[::-1]
        assert [grant.id for grant in store.grants.listed(agents=["a"])] == [ids[3], ids[0]]
        assert [grant.id for grant in store.grants.listed(agents=["a", "b"], limit=2, offset=1)] == [ids[1], ids[0]]
        assert store.grants.listed(agents=[]) == []
        store.grants.revoke(ids[1], by="me")
        assert [grant.id for grant in store.grants.listed(limit=2, offset=1)] == [ids[2], ids[0]]
        assert [grant.id for grant in store.grants.listed(ended=True, offset=2)] == [ids[1], ids[0]]


class TestRetention:
    """Executions that a grant refers to stay as long as it may hold."""

    def old(self, store: Store, clock: ManualClock, **options: Any) -> Grant:
        grant = given(store, **options)
        succeed(journal_of(store, store.execution(grant.execution_id)))
        succeed(journal_of(store, begin(store)))
        clock.advance(100)
        return grant

    def removed(self, store: Store, clock: ManualClock) -> set[ExecutionId]:
        found: set[ExecutionId] = set()
        left = store.retention.removable(clock.now - 50)
        while left.ids:
            some, left = store.retention.remove_some(left)
            found.update(some)
        return found

    @pytest.mark.parametrize("lasts", [None, 1000.0])
    def test_one_that_holds_keeps_its_execution(self, store: Store, clock: ManualClock, lasts: float | None) -> None:
        grant = self.old(store, clock, terms={"scope": GrantScope.AGENT, "lasts": lasts})
        assert self.removed(store, clock) == set()
        store.grants.revoke(grant.id, by="me")
        assert self.removed(store, clock) == {grant.execution_id}
        with pytest.raises(UnknownGrant):
            store.grants.get(grant.id)
        assert store.grants.listed(ended=True) == []

    def test_one_that_is_suspended_keeps_it_too(self, store: Store, clock: ManualClock) -> None:
        grant = self.old(store, clock, terms={"scope": GrantScope.AGENT})
        begin(store, spec=SPEC.replace("test", "best"))
        assert grant.execution_id not in self.removed(store, clock)

    def test_one_that_has_expired_keeps_nothing(self, store: Store, clock: ManualClock) -> None:
        grant = self.old(store, clock, terms={"scope": GrantScope.AGENT, "lasts": 50.0})
        store.settle_overdue()
        assert self.removed(store, clock) == {grant.execution_id}

    def test_nor_does_one_of_the_execution_alone(self, store: Store, clock: ManualClock) -> None:
        grant = self.old(store, clock, terms={"lasts": None})
        assert self.removed(store, clock) == {grant.execution_id}

    def test_a_child_keeps_its_family(self, store: Store, clock: ManualClock) -> None:
        root = begin(store)
        grant = given(store, agent="other", parent_id=root.id, terms={"scope": GrantScope.AGENT})
        for execution_id in (grant.execution_id, root.id):
            succeed(journal_of(store, store.execution(execution_id)))
        succeed(journal_of(store, begin(store)))
        clock.advance(100)
        assert self.removed(store, clock) == set()
        store.grants.revoke(grant.id, by="me")
        assert self.removed(store, clock) == {root.id, grant.execution_id}

    def test_a_call_that_it_let_run_elsewhere_still_names_it(self, store: Store, clock: ManualClock) -> None:
        grant = self.old(store, clock, terms={"scope": GrantScope.AGENT})
        other = begin(store)
        assert not asks(store, other, grant.id, turn=0)
        store.grants.revoke(grant.id, by="me")
        assert grant.execution_id in self.removed(store, clock)
        call = store.call(other.id, FIRST)
        assert call is not None
        assert call.grant_id == grant.id
        assert given(store).id > grant.id  # numbers never come again


def test_a_grant_given_at_the_end_of_an_execution_that_is_claimed(store: Store) -> None:
    _, [asked] = parked(store)
    receipt = store.record_answers([allowing(asked)], by="me", claim_for=W2)
    assert receipt.claim is not None
    assert store.execution(receipt.claim.execution_id).status is Status.RUNNING
    assert not asks(store, receipt.claim, receipt.answers[0].grant_id or GrantId(0))

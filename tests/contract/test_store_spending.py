"""Money that is held for model calls, and runs that are refused."""

from __future__ import annotations

import pytest

from agent_md.errors import BudgetSpent, ConversationWaiting
from agent_md.executions.model import Execution, NewExecution, Status, TriggerKind, Usage
from agent_md.executions.spending import Budget, RefusalKind, Verdict
from agent_md.ports import Ending, Journal, Store
from tests.support.clock import ManualClock
from tests.support.scenes import SPEC, W1, W2, begin, human, journal_of, parked, record
from tests.support.workers import FakeWorkers

DAY = Budget(0.25, since=0, late=0, price=0.1, is_bound=True)


def driving(store: Store, agent: str = "writer") -> Journal:
    return journal_of(store, begin(store, agent=agent))


class TestAReservation:
    def test_holds_for_all_executions_of_the_agent(self, store: Store) -> None:
        one, two, three, other = driving(store), driving(store), driving(store), driving(store, "reader")
        assert [j.reserve(DAY).verdict for j in (one, two, three)] == [Verdict.FITS, Verdict.FITS, Verdict.WAIT]
        assert other.reserve(DAY).verdict is Verdict.FITS

    def test_is_one_for_an_execution(self, store: Store) -> None:
        one, two = driving(store), driving(store)
        assert [one.reserve(DAY).verdict for _ in range(4)] == [Verdict.FITS] * 4
        assert two.reserve(DAY).verdict is Verdict.FITS

    def test_is_settled_by_the_message_at_what_it_cost(self, store: Store) -> None:
        one, two, three = driving(store), driving(store), driving(store)
        one.reserve(DAY)
        two.reserve(DAY)
        record(one, usage=Usage(1, 1, 0.05))
        assert three.reserve(DAY).verdict is Verdict.FITS
        record(two, usage=Usage(1, 1, 0.1))
        record(three, usage=Usage(1, 1, 0.1))
        assert store.spent("writer", 0) == pytest.approx(0.25)
        assert driving(store).reserve(DAY).verdict is Verdict.OVER

    @pytest.mark.parametrize("how", ["finish", "release", "claim"])
    def test_ends_with_the_drive(self, store: Store, how: str) -> None:
        execution = begin(store)
        one, two, three = journal_of(store, execution), driving(store), driving(store)
        assert {one.reserve(DAY).verdict, two.reserve(DAY).verdict} == {Verdict.FITS}
        if how == "finish":
            one.finish(Ending(Status.ERROR, error="no"))
        else:
            one.release()
        if how == "claim":
            assert store.claim(execution.id, W2) is not None
        assert three.reserve(DAY).verdict is Verdict.FITS

    def test_ends_with_the_death_of_its_worker(self, store: Store, workers: FakeWorkers) -> None:
        driving(store).reserve(DAY)
        driving(store).reserve(DAY)
        claim = store.claim(queued(store).id, W2)
        assert claim is not None
        third = store.journal(claim)
        assert third.reserve(DAY).verdict is Verdict.WAIT
        workers.kill(W1)
        assert third.reserve(DAY).verdict is Verdict.FITS

    def test_takes_the_dearest_turn_of_late_for_the_next(self, store: Store, clock: ManualClock) -> None:
        record(driving(store), usage=Usage(1, 1, 0.2))
        clock.advance(100)
        day = Budget(0.25, since=clock.now, late=0, price=0.01)
        assert driving(store).reserve(day).amount == pytest.approx(0.2)
        assert driving(store, "reader").reserve(day).amount == pytest.approx(0.25)


def queued(store: Store, *, session_id: str | None = None, budget: Budget | None = None) -> Execution:
    new = NewExecution("writer", TriggerKind.API, (human("Go."),), session_id=session_id, budget=budget)
    return store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=True, worker=None)


class TestARefusal:
    def test_for_money_is_kept_and_nothing_is_created(self, store: Store, clock: ManualClock) -> None:
        record(driving(store), usage=Usage(1, 1, 0.2))
        before = store.executions()
        with pytest.raises(BudgetSpent, match="writer was not started: max_cost_usd_per_day is") as caught:
            queued(store, session_id="s", budget=DAY)
        assert store.executions() == before
        (kept,) = store.refusals()
        assert (kept.agent, kept.trigger, kept.session_id) == ("writer", TriggerKind.API, "s")
        assert (kept.kind, kept.reason, kept.at) == (RefusalKind.BUDGET, str(caught.value), clock.now)

    def test_what_others_hold_refuses_no_new_execution(self, store: Store) -> None:
        driving(store).reserve(DAY)
        driving(store).reserve(DAY)
        assert queued(store, budget=DAY).id
        assert store.refusals() == []

    def test_of_a_conversation_that_waits_is_kept(self, store: Store) -> None:
        waiting, _ = parked(store)
        with pytest.raises(ConversationWaiting):
            queued(store, session_id=waiting.session_id)
        assert [kept.kind for kept in store.refusals()] == [RefusalKind.PENDING]

    def test_is_listed_newest_first_by_agent_and_session(self, store: Store) -> None:
        spent = Budget(0, since=0, late=0)
        for session in ("a", "b", "c"):
            with pytest.raises(BudgetSpent):
                queued(store, session_id=session, budget=spent)
        assert [kept.session_id for kept in store.refusals()] == ["c", "b", "a"]
        assert [kept.session_id for kept in store.refusals(limit=1, offset=1)] == ["b"]
        assert [kept.session_id for kept in store.refusals(session_id="a", agents=("writer",))] == ["a"]
        assert store.refusals(agents=("reader",)) == []

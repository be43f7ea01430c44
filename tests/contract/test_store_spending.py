"""Money that is held for model calls, and runs that are refused."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agent_md.errors import BudgetSpent, ConversationWaiting
from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.execution import Execution, NewExecution, Usage
from agent_md.executions.spending import Budget, DayLimit, RefusalKind, Scope, Verdict
from agent_md.executions.states import Status, TriggerKind
from agent_md.ports.journal import ExecutionEnd, Journal
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import SPEC, W1, W2, begin, human, journal_of, parked, record
from tests.support.workers import FakeWorkers


def day(agent: float | None = None, workspace: float | None = None, since: float = 0, **known: Any) -> Budget:
    """Limits of a day; a call costs 0.1 if nothing else is `known` of it."""
    amounts = {Scope.AGENT: agent, Scope.WORKSPACE: workspace}
    limits = tuple(DayLimit(scope, amount) for scope, amount in amounts.items() if amount is not None)
    return Budget(limits, since, late=0, **(known or {"price": 0.1, "is_bound": True}))


DAY = day(0.25)
WORKSPACE = day(workspace=0.25)


def driving(store: Store, agent: str = "writer") -> Journal:
    return journal_of(store, begin(store, agent=agent))


def pay(store: Store, cost: float | None, agent: str = "writer") -> None:
    """A call that was made, and cost this."""
    record(driving(store, agent), usage=Usage(1, 1, cost))


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
        assert store.spent(0, "writer") == pytest.approx(0.25)
        assert driving(store).reserve(DAY).verdict is Verdict.OVER

    @pytest.mark.parametrize("how", ["finish", "release", "claim"])
    def test_ends_with_the_drive(self, store: Store, how: str) -> None:
        execution = begin(store)
        one, two, three = journal_of(store, execution), driving(store), driving(store)
        assert {one.reserve(DAY).verdict, two.reserve(DAY).verdict} == {Verdict.FITS}
        if how == "finish":
            one.finish(ExecutionEnd(Status.ERROR, error="no"))
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
        today = day(0.25, since=clock.now, price=0.01)
        assert driving(store).reserve(today).amount == pytest.approx(0.2)
        assert driving(store, "reader").reserve(today).amount == math.inf


class TestTheWorkspace:
    def test_is_limited_over_all_agents(self, store: Store) -> None:
        asked = [driving(store, agent).reserve(WORKSPACE).verdict for agent in ("writer", "reader", "editor")]
        assert asked == [Verdict.FITS, Verdict.FITS, Verdict.WAIT]

    def test_is_limited_beside_its_agents(self, store: Store) -> None:
        pay(store, 0.2, "reader")
        both = day(0.15, 0.35)
        assert [driving(store).reserve(both).verdict for _ in range(2)] == [Verdict.FITS, Verdict.WAIT]
        over = driving(store, "reader").reserve(both)
        assert (over.verdict, over.reason) == (Verdict.OVER, "max_cost_usd_per_day is $0.15, and $0.2 are spent today")

    def test_ends_a_call_that_would_exceed_it(self, store: Store) -> None:
        pay(store, 0.2, "reader")
        over = driving(store).reserve(WORKSPACE)
        assert (over.verdict, over.reason) == (
            Verdict.OVER,
            "max_cost_usd_per_day of the workspace is $0.25, $0.2 are spent today, and the next call may cost $0.1",
        )
        with pytest.raises(BudgetSpent, match="writer was not started: max_cost_usd_per_day of the workspace is"):
            queued(store, budget=WORKSPACE)
        assert [kept.kind for kept in store.refusals()] == [RefusalKind.BUDGET]

    @pytest.mark.parametrize("limits", [{"agent": 0.25}, {"workspace": 0.25}])
    def test_has_no_cost_that_is_0_because_nobody_knows_it(self, store: Store, limits: dict[str, float]) -> None:
        pay(store, None)
        assert driving(store).reserve(day(**limits)).reason.endswith("and the cost so far today is unknown")
        other = driving(store, "reader").reserve(day(**limits)).verdict
        assert other is (Verdict.OVER if "workspace" in limits else Verdict.FITS)

    def test_is_that_of_the_day(self, store: Store, clock: ManualClock) -> None:
        pay(store, 5, "reader")
        clock.advance(10)
        assert driving(store).reserve(day(workspace=0.25, since=clock.now)).verdict is Verdict.FITS
        assert (store.spent(0), store.spent(0, "writer"), store.spent(clock.now)) == (5, 0, 0)

    def test_two_processes_never_hold_more_than_there_is(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]
        journals = [driving(stores[n % 2], f"agent-{n % 3}") for n in range(8)]
        with ThreadPoolExecutor(8) as pool:
            judged = list(pool.map(lambda journal: journal.reserve(WORKSPACE), journals))
        assert [judgement.verdict for judgement in judged].count(Verdict.FITS) == 2


class TestWhoeverWaits:
    UNKNOWN = day(workspace=1.0, price=0.01)

    def test_is_not_passed_by(self, store: Store) -> None:
        """An agent without a turn takes all that is left: others that know what they cost do not keep it waiting."""
        one, two, new = driving(store), driving(store), driving(store, "new")
        many = day(workspace=1.0)
        assert one.reserve(many).verdict is Verdict.FITS
        assert new.reserve(self.UNKNOWN).verdict is Verdict.WAIT
        assert two.reserve(many).verdict is Verdict.WAIT
        record(one, usage=Usage(1, 1, 0.1))
        assert two.reserve(many).verdict is Verdict.WAIT
        assert new.reserve(self.UNKNOWN).verdict is Verdict.FITS
        record(new, usage=Usage(1, 1, 0.1))
        assert two.reserve(many).verdict is Verdict.FITS

    @pytest.mark.parametrize("how", ["release", "kill"])
    def test_leaves_its_place_with_its_drive(self, store: Store, workers: FakeWorkers, how: str) -> None:
        one, two = driving(store), driving(store)
        claim = store.claim(queued(store).id, W2)
        assert claim is not None
        waits = store.journal(claim)
        one.reserve(day(workspace=1.0))
        assert waits.reserve(self.UNKNOWN).verdict is Verdict.WAIT
        assert two.reserve(day(workspace=1.0)).verdict is Verdict.WAIT
        if how == "release":
            waits.release()
        else:
            workers.kill(W2)
        assert two.reserve(day(workspace=1.0)).verdict is Verdict.FITS

    def test_of_an_agent_waits_for_its_limit_only(self, store: Store) -> None:
        one, two, other = driving(store), driving(store), driving(store, "reader")
        both = day(0.15, 1.0)
        assert [j.reserve(both).verdict for j in (one, two, other)] == [Verdict.FITS, Verdict.WAIT, Verdict.FITS]


class TestChildren:
    """What an execution was part of pays too: its money is that of the agent that was started."""

    def test_count_for_the_agent_of_the_root(self, store: Store) -> None:
        root = begin(store, agent="boss")
        child = begin(store, agent="writer", parent_id=root.id)
        grandchild = journal_of(store, begin(store, agent="reader", parent_id=child.id))
        record(grandchild, usage=Usage(1, 1, 0.2))
        spent = {agent: store.spent(0, agent) for agent in ("boss", "writer", "reader", None)}
        assert spent == {"boss": 0.2, "writer": 0.0, "reader": 0.2, None: 0.2}
        assert driving(store, "boss").reserve(DAY).verdict is Verdict.OVER
        assert driving(store, "writer").reserve(DAY).verdict is Verdict.FITS

    def test_are_limited_by_the_day_of_the_agent_of_the_root(self, store: Store) -> None:
        pay(store, 0.2, "boss")
        root = begin(store, agent="boss")
        child = journal_of(store, begin(store, agent="writer", parent_id=root.id))
        limit = DayLimit(Scope.ROOT, 0.25)
        judged = child.reserve(Budget((limit,), 0, late=0, price=0.1, is_bound=True))
        assert judged.verdict is Verdict.OVER
        assert judged.reason.startswith("max_cost_usd_per_day of the agent at the top is $0.25, $0.2 are spent today")
        assert (
            child.reserve(Budget((DayLimit(Scope.ROOT, 0.4),), 0, late=0, price=0.1, is_bound=True)).verdict
            is Verdict.FITS
        )

    def test_hold_money_of_the_agent_of_the_root(self, store: Store) -> None:
        root = begin(store, agent="boss")
        child = journal_of(store, begin(store, agent="writer", parent_id=root.id))
        child.reserve(day(0.15))
        assert driving(store, "boss").reserve(day(0.15)).verdict is Verdict.WAIT


class TestMarks:
    def test_are_told_once_by_whoever_passes_them(self, store: Store) -> None:
        said = []
        for _ in range(4):
            journal = driving(store)
            journal.reserve(day(0.4, 0.5))
            said.append(record(journal, usage=Usage(1, 1, 0.1)))
        agent, workspace = "max_cost_usd_per_day is $0.4", "max_cost_usd_per_day of the workspace is $0.5"
        assert said == [
            (),
            (),
            (),
            (f"{agent}, and $0.4 are spent today (100%)", f"{workspace}, and $0.4 are spent today (80%)"),
        ]
        assert record(driving(store), usage=Usage(1, 1, 0.1)) == ()  # nothing limits it

    def test_are_not_told_where_a_cost_is_unknown(self, store: Store) -> None:
        journal = driving(store)
        journal.reserve(DAY)
        assert record(journal, usage=Usage(1, 1, None)) == ()


class TestCosts:
    @pytest.fixture(autouse=True)
    def paid(self, store: Store, clock: ManualClock) -> None:
        pay(store, 0.25)
        pay(store, 0.5, "reader")
        clock.advance(2 * 86_400)
        pay(store, None)
        pay(store, 0.5, "reader")

    def test_by_agent_come_dearest_first(self, store: Store) -> None:
        reader, writer = Cost("reader", 2, 2, 2, 1.0), Cost("writer", 2, 2, 2, 0.25, unknown=1)
        assert store.costs(CostBy.AGENT) == [reader, writer]
        assert store.costs(CostBy.AGENT, agents=("writer",)) == [writer]
        assert store.costs(CostBy.AGENT, agents=()) == []
        assert store.costs(CostBy.AGENT, agents=("writer",), since=0) == [writer]
        assert (reader.usd, writer.usd) == (1.0, None)

    def test_since_a_time(self, store: Store, clock: ManualClock) -> None:
        assert store.costs(CostBy.AGENT, since=clock.now) == [
            Cost("reader", 1, 1, 1, 0.5),
            Cost("writer", 1, 1, 1, 0.0, unknown=1),
        ]
        assert store.costs(CostBy.MODEL, since=clock.now + 1) == []

    def test_by_model(self, store: Store) -> None:
        assert store.costs(CostBy.MODEL) == [Cost("script/test", 4, 4, 4, 1.25, unknown=1)]

    def test_by_day_come_newest_first(self, store: Store, clock: ManualClock) -> None:
        days = [time.strftime("%Y-%m-%d", time.localtime(clock.now - ago)) for ago in (0, 2 * 86_400)]
        assert store.costs(CostBy.DAY) == [Cost(days[0], 2, 2, 2, 0.5, unknown=1), Cost(days[1], 2, 2, 2, 0.75)]


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
        spent = day(0, price=0.0)
        for session in ("a", "b", "c"):
            with pytest.raises(BudgetSpent):
                queued(store, session_id=session, budget=spent)
        assert [kept.session_id for kept in store.refusals()] == ["c", "b", "a"]
        assert [kept.session_id for kept in store.refusals(limit=1, offset=1)] == ["b"]
        assert [kept.session_id for kept in store.refusals(session_id="a", agents=("writer",))] == ["a"]
        assert store.refusals(agents=("reader",)) == []

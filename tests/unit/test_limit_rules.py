"""What ends an execution before its next model call, from its settings, its usage and its messages alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agent_md.agents.spec import RunSettings
from agent_md.errors import LimitReached
from agent_md.executions.execution import Spent, Usage
from agent_md.executions.spending import Account, Budget, DayLimit, Scope, Spending, judge, mark_passed
from agent_md.graph.limits import check_before_model_call, check_spent

START: list[BaseMessage] = [SystemMessage("Work."), HumanMessage("Begin.")]


def exchange(*results: tuple[str, str], tool: str = "file_read", status: str = "error") -> list[BaseMessage]:
    """A message with one call a result: (its path, its text)."""
    calls = [{"name": tool, "args": {"path": path}, "id": f"c{index}"} for index, (path, _) in enumerate(results)]
    told = [
        ToolMessage(text, tool_call_id=f"c{index}", name=tool, status=status) for index, (_, text) in enumerate(results)
    ]
    return [AIMessage("", tool_calls=calls), *told]


FAILED = exchange(("a", "Error: gone"))


def reason(messages: list[BaseMessage], usage: Usage | None = None, calls: int = 0, **settings: Any) -> str | None:
    try:
        check_spent(RunSettings(**settings), Spent(usage or Usage(), calls))
        check_before_model_call(RunSettings(**settings), [*START, *messages])
    except LimitReached as error:
        return str(error)
    return None


def test_nothing_ends_a_fresh_execution() -> None:
    assert reason([]) is None


@pytest.mark.parametrize(("count", "ends"), [(4, False), (5, False), (6, True)])
def test_tool_calls(count: int, ends: bool) -> None:
    assert (reason([], calls=count, max_tool_calls=5) is not None) is ends


def test_a_limit_of_another_execution_is_named() -> None:
    with pytest.raises(LimitReached, match="max_tool_calls of boss is 5, and it and those it called asked for 6"):
        check_spent(RunSettings(max_tool_calls=5), Spent(calls=6), " of boss")


@pytest.mark.parametrize(("used", "ends"), [(99, False), (100, True), (101, True)])
def test_tokens(used: int, ends: bool) -> None:
    told = reason([], Usage(used - 10, 10), max_execution_tokens=100)
    assert told == (f"max_execution_tokens is 100, and {used} are used" if ends else None)


@pytest.mark.parametrize(
    ("spent", "told"),
    [
        (0.49, None),
        (0.5, "max_cost_usd is $0.5, and $0.5 are spent"),
        (None, "max_cost_usd is $0.5, and the cost so far is unknown"),
    ],
)
def test_money(spent: float | None, told: str | None) -> None:
    assert reason([], Usage(1, 1, spent), max_cost_usd=0.5) == told


def told(budget: Budget, spending: Spending) -> tuple[str, float]:
    judged = judge(budget, spending)
    return judged.reason or str(judged.verdict), pytest.approx(judged.amount)


def day(limit: float, price: float | None = 0.0, *, is_bound: bool = False, workspace: float | None = None) -> Budget:
    limits = [DayLimit(Scope.AGENT, limit)]
    if workspace is not None:
        limits.append(DayLimit(Scope.WORKSPACE, workspace))
    return Budget(tuple(limits), since=0, late=0, price=price, is_bound=is_bound)


def spending(
    spent: float | None,
    held: float = 0.0,
    dearest: float | None = None,
    *,
    workspace: tuple[float | None, float] = (0.0, 0.0),
) -> Spending:
    return Spending({Scope.AGENT: Account(spent, held), Scope.WORKSPACE: Account(*workspace)}, dearest)


class TestMoneyOfTheDay:
    def test_that_is_spent_or_unknown_ends_it(self) -> None:
        assert told(day(2), spending(2.0))[0] == "max_cost_usd_per_day is $2, and $2 are spent today"
        assert told(day(2), spending(None))[0] == "max_cost_usd_per_day is $2, and the cost so far today is unknown"
        assert told(day(0), spending(0.0))[0] == "max_cost_usd_per_day is $0, and $0 are spent today"
        assert (
            told(day(2, None), spending(0.0))[0] == "max_cost_usd_per_day is $2, and the price of the model is unknown"
        )

    def test_holds_the_larger_of_the_dearest_turn_and_the_price(self) -> None:
        assert told(day(2, 0.5), spending(0, dearest=0.1)) == ("fits", 0.5)
        assert told(day(2, 0.1), spending(0, dearest=0.5)) == ("fits", 0.5)

    def test_of_which_nobody_knows_what_a_call_costs_is_held_whole(self) -> None:
        assert told(day(2, 0.1), spending(0.5)) == ("fits", math.inf)
        assert told(day(2, 0.1), spending(0.5, held=0.1)) == ("wait", math.inf)
        assert told(day(2, 0.1, is_bound=True), spending(0.5, held=math.inf)) == ("wait", 0.1)
        assert told(day(2, 0.1, is_bound=True), spending(0.5)) == ("fits", 0.1)

    def test_that_is_held_by_others_is_waited_for(self) -> None:
        assert told(day(0.25), spending(0.1, held=0.1, dearest=0.1)) == ("wait", 0.1)
        assert told(day(0.3), spending(0.1, held=0.1, dearest=0.1)) == ("fits", 0.1)

    def test_that_would_be_exceeded_by_the_next_call_ends_it(self) -> None:
        assert told(day(0.25), spending(0.2, dearest=0.1))[0] == (
            "max_cost_usd_per_day is $0.25, $0.2 are spent today, and the next call may cost $0.1"
        )

    def test_of_the_workspace_counts_beside_that_of_the_agent(self) -> None:
        both = day(1, workspace=3)
        assert told(both, spending(0.5, dearest=0.1, workspace=(2.8, 0.0))) == ("fits", 0.1)
        assert told(both, spending(0.5, dearest=0.1, workspace=(2.8, 0.15))) == ("wait", 0.1)
        assert told(both, spending(0.5, workspace=(0.5, 0.1))) == ("wait", math.inf)
        assert told(both, spending(0.5, dearest=0.1, workspace=(2.95, 0.0)))[0] == (
            "max_cost_usd_per_day of the workspace is $3, $2.95 are spent today, and the next call may cost $0.1"
        )
        assert told(both, spending(1.0, dearest=0.1, workspace=(3.0, 0.0)))[0].startswith("max_cost_usd_per_day is $1,")

    @pytest.mark.parametrize(
        ("before", "after", "told"),
        [
            (0, 3.99, None),
            (3.99, 4, "max_cost_usd_per_day of the workspace is $5, and $4 are spent today (80%)"),
            (4, 4.99, None),
            (4.5, 5, "max_cost_usd_per_day of the workspace is $5, and $5 are spent today (100%)"),
            (0, 6, "max_cost_usd_per_day of the workspace is $5, and $6 are spent today (120%)"),
            (5, 6, None),
        ],
    )
    def test_the_log_is_told_when_a_mark_is_passed(self, before: float, after: float, told: str | None) -> None:
        assert mark_passed(DayLimit(Scope.WORKSPACE, 5), before, after) == told

    def test_no_mark_of_a_limit_of_nothing_is_passed(self) -> None:
        assert mark_passed(DayLimit(Scope.AGENT, 0), 0, 1) is None


def test_an_unknown_cost_is_fine_without_a_limit_on_it() -> None:
    assert reason([], Usage(1, 1, None)) is None


class TestLoops:
    def test_three_times_in_a_row(self) -> None:
        assert reason([*FAILED, *FAILED]) is None
        assert reason([*FAILED, *FAILED, *FAILED]) == (
            "loop_detection: file_read failed 3 times in a row in the same way: Error: gone"
        )

    def test_within_one_message(self) -> None:
        assert reason(exchange(*[("a", "Error: gone")] * 3)) is not None

    def test_the_last_three_count(self) -> None:
        assert reason([*exchange(("b", "x")), *FAILED, *FAILED, *FAILED]) is not None
        assert reason([*FAILED, *FAILED, *FAILED, *exchange(("b", "x"))]) is None

    @pytest.mark.parametrize(
        "other",
        [
            exchange(("b", "Error: gone")),
            exchange(("a", "Error: other")),
            exchange(("a", "Error: gone"), tool="file_delete"),
            exchange(("a", "Error: gone"), status="success"),
        ],
    )
    def test_another_call_or_another_error_is_none(self, other: list[BaseMessage]) -> None:
        assert reason([*FAILED, *other, *FAILED]) is None
        assert reason([*other, *FAILED, *FAILED]) is None

    def test_turned_off(self) -> None:
        assert reason([*FAILED] * 5, loop_detection=False) is None

    def test_the_reason_stays_short(self) -> None:
        told = reason([*exchange(("a", "x\n" * 10_000))] * 3)
        assert told is not None
        assert len(told) < 400
        assert "\n" not in told

"""Money in memory: what calls of models cost, and what is held for those under way."""

from __future__ import annotations

import json
import time
from collections.abc import Collection
from typing import NamedTuple

from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.execution import Usage
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.spending import Account, Budget, BudgetVerdict, Scope, Spending, Verdict, judge, mark_passed
from tests.support.memory_state import MemoryState

__all__ = ["MemoryLedger"]


class _Row(NamedTuple):
    agent: str
    root_agent: str
    model: str | None
    at: float
    usage: Usage


class _Hold(NamedTuple):
    agent: str
    root_agent: str
    worker: WorkerId
    amount: float
    place: int | None


class MemoryLedger:
    """On the tables of a `MemoryState`: the rows of calls, which outlive their executions, and the money that is held."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def record(self, execution_id: ExecutionId, turn: int, usage: Usage) -> None:
        state = self._state
        row = _Row(*state.agents_of(execution_id), _model(state.specs[execution_id]), state.now(), usage)
        state.ledger[execution_id, turn] = row

    def spent(self, scope: Scope, agent: str, since: float) -> float | None:
        costs = [
            row.usage.cost_usd for row in self._state.ledger.values() if row.at >= since and _counts(row, scope, agent)
        ]
        known = [cost for cost in costs if cost is not None]
        return sum(known, 0.0) if len(known) == len(costs) else None

    def judge(self, budget: Budget, agent: str, *, before: int | None, root_agent: str | None = None) -> BudgetVerdict:
        """As of now for a call of the agent that stands before those of this place; None = nobody holds anything."""
        holds = [] if before is None else [h for h in self._state.holds.values() if h.place is None or h.place < before]
        accounts = {}
        for scope in (limit.scope for limit in budget.limits):
            whose = root_agent or agent if scope is Scope.ROOT else agent
            held = sum(hold.amount for hold in holds if _counts(hold, scope, whose))
            accounts[scope] = Account(self.spent(scope, whose, budget.since), held)
        late = [
            row.usage.cost_usd for row in self._state.ledger.values() if row.agent == agent and row.at >= budget.late
        ]
        return judge(budget, Spending(accounts, max((cost for cost in late if cost is not None), default=None)))

    def reserve(self, execution_id: ExecutionId, worker: WorkerId, budget: Budget) -> BudgetVerdict:
        agents = self._state.agents_of(execution_id)
        last = max((hold.place or 0 for hold in self._state.holds.values()), default=0)
        own = self._state.holds.pop(execution_id, None)
        place = last + 1 if own is None or own.place is None else own.place
        judged = self.judge(budget, agents[0], before=place, root_agent=agents[1])
        if judged.verdict is not Verdict.OVER:
            waits = None if judged.verdict is Verdict.FITS else place
            self._state.holds[execution_id] = _Hold(*agents, worker, judged.amount, waits)
        return judged

    def marks_passed(self, budget: Budget, agents: tuple[str, str], cost: float | None) -> tuple[str, ...]:
        told = []
        for limit in budget.limits:
            after = self.spent(limit.scope, agents[limit.scope is Scope.ROOT], budget.since)
            if after is not None and cost is not None:
                told.append(mark_passed(limit, after - cost, after))
        return tuple(text for text in told if text is not None)

    def costs(self, by: CostBy, agents: Collection[str] | None, since: float) -> list[Cost]:
        groups: dict[str, list[Usage]] = {}
        for row in self._state.ledger.values():
            if row.at >= since and (agents is None or row.agent in agents):
                groups.setdefault(_key(row, by), []).append(row.usage)
        found = [_cost(key, usages) for key, usages in groups.items()]
        if by is CostBy.DAY:
            return sorted(found, key=lambda cost: cost.key, reverse=True)
        return sorted(found, key=lambda cost: (-cost.known_usd, cost.key))


def _model(spec: str) -> str | None:
    model = json.loads(spec).get("model")
    return f"{model['provider']}/{model['name']}" if isinstance(model, dict) else None


def _counts(row: _Row | _Hold, scope: Scope, agent: str) -> bool:
    return scope is Scope.WORKSPACE or agent in (row.agent, row.root_agent)


def _key(row: _Row, by: CostBy) -> str:
    match by:
        case CostBy.DAY:
            return time.strftime("%Y-%m-%d", time.localtime(row.at))
        case CostBy.AGENT:
            return row.agent
        case CostBy.MODEL:
            return row.model or "unknown"


def _cost(key: str, usages: list[Usage]) -> Cost:
    known = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return Cost(
        key,
        len(usages),
        sum(usage.input_tokens for usage in usages),
        sum(usage.output_tokens for usage in usages),
        sum(known, 0.0),
        len(usages) - len(known),
    )

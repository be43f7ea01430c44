"""Money that is spent, and money that is held for calls under way. What writes must run inside `Database.write()`."""

from __future__ import annotations

from agent_md.errors import BudgetSpent
from agent_md.executions.model import Claim, ExecutionId, WorkerId
from agent_md.executions.spending import Budget, Judgement, Spending, Verdict, judge
from agent_md.ports import Workers
from agent_md.stores.sqlite.database import Database

__all__ = ["free", "refuse_if_spent", "reserve", "spent"]

_TURNS = (
    " FROM (SELECT u.cost_usd FROM executions x JOIN usage u ON u.execution_id = x.id"
    " JOIN events e ON e.execution_id = u.execution_id AND e.key = 'ai:' || u.turn"
    " WHERE x.agent = ?1 AND (x.finished_at IS NULL OR x.finished_at >= ?2) AND e.at >= ?2"
    " UNION ALL SELECT json_extract(u.value, '$[3]') FROM tombstones t, json_each(t.usage) u"
    " WHERE t.agent = ?1 AND t.finished_at >= ?2 AND json_extract(u.value, '$[0]') >= ?2) u"
)
"""Turns of an agent since a time, those of executions that were removed too."""


def spent(db: Database, agent: str, since: float) -> float | None:
    """As `Store.spent`."""
    (cost,) = db.one(
        f"SELECT CASE WHEN count(*) = count(u.cost_usd) THEN coalesce(sum(u.cost_usd), 0.0) END{_TURNS}",
        *(agent, since),
    )
    return None if cost is None else float(cost)


def _dearest(db: Database, agent: str, since: float) -> float | None:
    (cost,) = db.one(f"SELECT max(u.cost_usd){_TURNS}", agent, since)
    return None if cost is None else float(cost)


def refuse_if_spent(db: Database, agent: str, budget: Budget) -> None:
    """Raises BudgetSpent when the first call of a new execution would not be made."""
    spending = Spending(spent(db, agent, budget.since), dearest=_dearest(db, agent, budget.late))
    judged = judge(budget, spending)
    if judged.verdict is Verdict.OVER:
        raise BudgetSpent(f"{agent} was not started: {judged.reason}")


def reserve(db: Database, claim: Claim, budget: Budget, workers: Workers) -> Judgement:
    """Holds what a call of the claim's execution may cost, if it fits. What dead workers hold is freed first."""
    (agent,) = db.one("SELECT agent FROM executions WHERE id = ?", claim.execution_id)
    free(db, claim.execution_id)
    for execution_id, worker in db.all("SELECT execution_id, worker FROM reservations WHERE agent = ?", agent):
        if not workers.alive(WorkerId(worker)):
            free(db, ExecutionId(execution_id))
    (held,) = db.one("SELECT coalesce(sum(amount), 0.0) FROM reservations WHERE agent = ?", agent)
    spending = Spending(spent(db, agent, budget.since), float(held), _dearest(db, agent, budget.late))
    judged = judge(budget, spending)
    if judged.verdict is Verdict.FITS:
        db.run(
            "INSERT INTO reservations (execution_id, agent, worker, amount) VALUES (?, ?, ?, ?)",
            *(claim.execution_id, agent, claim.worker, judged.amount),
        )
    return judged


def free(db: Database, execution_id: ExecutionId) -> None:
    """Holds nothing more for the execution: its call is paid, or will never be."""
    db.run("DELETE FROM reservations WHERE execution_id = ?", execution_id)

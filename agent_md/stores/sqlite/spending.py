"""Reservations of money for running model calls. Writes must run inside `Database.write()`."""

from __future__ import annotations

from agent_md.errors import BudgetSpent
from agent_md.executions.execution import Claim, NewExecution
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.spending import Account, Budget, BudgetVerdict, Scope, Spending, Verdict, judge, mark_passed
from agent_md.ports.workers import Workers
from agent_md.stores.sqlite import ledger
from agent_md.stores.sqlite.database import Database

__all__ = ["free", "marks_passed", "refuse_if_spent", "reserve"]


def refuse_if_spent(db: Database, new: NewExecution, budget: Budget) -> None:
    """Raises BudgetSpent when the first call of a new execution would not be made."""
    accounts = {limit.scope: Account(ledger.spent(db, limit.scope, new.agent, budget.since)) for limit in budget.limits}
    judged = judge(budget, Spending(accounts, ledger.dearest(db, new.agent, budget.late)))
    if judged.verdict is Verdict.OVER:
        raise BudgetSpent(f"{new.agent} was not started: {judged.reason}")


def reserve(db: Database, claim: Claim, budget: Budget, workers: Workers) -> BudgetVerdict:
    """Holds what a call of the claim's execution may cost, if it fits; else it has a place among those that wait. What is
    of dead workers is freed first."""
    (agent,) = db.one("SELECT agent FROM executions WHERE id = ?", claim.execution_id)
    for (worker,) in db.all("SELECT DISTINCT worker FROM reservations"):
        if not workers.alive(WorkerId(worker)):
            db.run("DELETE FROM reservations WHERE worker = ?", worker)
    row = db.one("SELECT place FROM reservations WHERE execution_id = ?", claim.execution_id)
    (last,) = db.one("SELECT coalesce(max(place), 0) FROM reservations")
    place = last + 1 if row is None or row[0] is None else row[0]
    free(db, claim.execution_id)
    root_agent = ledger.root_agent(db, claim.execution_id)
    accounts = {}
    for scope in (limit.scope for limit in budget.limits):
        whose = root_agent if scope is Scope.ROOT else agent
        accounts[scope] = Account(ledger.spent(db, scope, whose, budget.since), _held(db, scope, whose, before=place))
    judged = judge(budget, Spending(accounts, ledger.dearest(db, agent, budget.late)))
    if judged.verdict is not Verdict.OVER:
        db.run(
            "INSERT INTO reservations (execution_id, agent, root_agent, worker, amount, place) VALUES (?, ?, ?, ?, ?, ?)",
            *(claim.execution_id, agent, root_agent, claim.worker, judged.amount),
            None if judged.verdict is Verdict.FITS else place,
        )
    return judged


def _held(db: Database, scope: Scope, agent: str, *, before: int) -> float:
    """What is held in this scope, and what those want who wait at an earlier place: the first to ask is not passed by."""
    (held,) = db.one(
        "SELECT coalesce(sum(amount), 0.0) FROM reservations"
        f" WHERE {ledger.COUNTS_FOR[scope]} AND (place IS NULL OR place < ?2)",
        *(agent, before),
    )
    return float(held)


def marks_passed(db: Database, claim: Claim, budget: Budget, cost: float | None) -> tuple[str, ...]:
    """The log messages after a call of the claim's execution was paid, at this cost."""
    (agent,) = db.one("SELECT agent FROM executions WHERE id = ?", claim.execution_id)
    root_agent = ledger.root_agent(db, claim.execution_id)
    told = []
    for limit in budget.limits:
        whose = root_agent if limit.scope is Scope.ROOT else agent
        after = ledger.spent(db, limit.scope, whose, budget.since)
        if after is not None and cost is not None:
            told.append(mark_passed(limit, after - cost, after))
    return tuple(text for text in told if text is not None)


def free(db: Database, execution_id: ExecutionId) -> None:
    """Holds nothing more for the execution: its call is paid, or will never be."""
    db.run("DELETE FROM reservations WHERE execution_id = ?", execution_id)

"""The ledger of model costs: one row per call, which outlives its execution. Writes must run inside
`Database.write()`."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.execution import Usage
from agent_md.executions.ids import ExecutionId
from agent_md.executions.spending import Scope
from agent_md.stores.sqlite.database import Database

__all__ = ["COUNTS_FOR", "costs", "dearest", "record", "root_agent", "spent"]

_ROOT = """
WITH RECURSIVE line (parent_id, agent) AS (
    SELECT parent_id, agent FROM executions WHERE id = ?
    UNION ALL SELECT x.parent_id, x.agent FROM executions x JOIN line ON x.id = line.parent_id)
SELECT agent FROM line WHERE parent_id IS NULL"""

_OF_AGENT = "(agent = ?1 OR root_agent = ?1)"
COUNTS_FOR = {Scope.AGENT: _OF_AGENT, Scope.ROOT: _OF_AGENT, Scope.WORKSPACE: "?1 IS NOT NULL"}
"""Of a row with `agent` and `root_agent`: whether it counts for the limit of an agent, ?1, or for that of the workspace."""

_KEYS = {
    CostBy.DAY: "strftime('%Y-%m-%d', at, 'unixepoch', 'localtime')",
    CostBy.AGENT: "agent",
    CostBy.MODEL: "coalesce(model, 'unknown')",
}
_ORDERS = {CostBy.DAY: "key DESC", CostBy.AGENT: "known DESC, key", CostBy.MODEL: "known DESC, key"}


def root_agent(db: Database, execution_id: ExecutionId) -> str:
    """The agent of the execution that this one is part of, which has no parent."""
    return str(db.one(_ROOT, execution_id)[0])


def record(db: Database, execution_id: ExecutionId, turn: int, usage: Usage, at: float) -> None:
    """Adds what a call of the execution's model used."""
    db.run(
        "INSERT INTO ledger (execution_id, turn, agent, root_agent, model, at, input_tokens, output_tokens, cost_usd)"
        " SELECT x.id, ?, x.agent, ?, json_extract(s.body, '$.model.provider') || '/' || json_extract(s.body, '$.model.name'),"
        " ?, ?, ?, ? FROM executions x JOIN specs s ON s.digest = x.spec_digest WHERE x.id = ?",
        *(turn, root_agent(db, execution_id), at, usage.input_tokens, usage.output_tokens, usage.cost_usd),
        execution_id,
    )


def spent(db: Database, scope: Scope, agent: str, since: float) -> float | None:
    """US dollars in this scope since then; None if the cost of one call is unknown."""
    (cost,) = db.one(
        "SELECT CASE WHEN count(*) = count(cost_usd) THEN coalesce(sum(cost_usd), 0.0) END FROM ledger"
        f" WHERE at >= ?2 AND {COUNTS_FOR[scope]}",
        *(agent, since),
    )
    return None if cost is None else float(cost)


def dearest(db: Database, agent: str, since: float) -> float | None:
    """The most that a call of the agent's own executions has cost since then; None if there was none."""
    (cost,) = db.one("SELECT max(cost_usd) FROM ledger WHERE agent = ? AND at >= ?", agent, since)
    return None if cost is None else float(cost)


def costs(db: Database, by: CostBy, agents: Collection[str] | None, since: float | None) -> list[Cost]:
    """As `Store.costs`."""
    conditions: list[str] = ["at >= ?"] if since is not None else []
    values: list[object] = [since] if since is not None else []
    if agents is not None:
        conditions.append(f"agent IN ({', '.join('?' * len(agents))})")
        values += sorted(agents)
    rows = db.all(
        f"SELECT {_KEYS[by]} AS key, count(*), sum(input_tokens), sum(output_tokens),"
        " coalesce(sum(cost_usd), 0.0) AS known, count(*) - count(cost_usd)"
        f" FROM ledger WHERE {' AND '.join(conditions) or 'TRUE'} GROUP BY key ORDER BY {_ORDERS[by]}",
        *values,
    )
    return [Cost(*row) for row in rows]

"""Refused runs in SQLite; only the newest are kept."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.executions.execution import NewExecution
from agent_md.executions.spending import Refusal, RefusalKind
from agent_md.executions.states import TriggerKind
from agent_md.stores.sqlite.database import Database

__all__ = ["add_refusal", "refusals"]

_KEPT = 1000


def add_refusal(db: Database, new: NewExecution, kind: RefusalKind, reason: str, at: float) -> None:
    """Must run inside `Database.write()`."""
    (number,) = db.one(
        "INSERT INTO refusals (agent, trigger, session_id, kind, reason, at) VALUES (?, ?, ?, ?, ?, ?) RETURNING id",
        *(new.agent, new.trigger, new.session_id, kind, reason, at),
    )
    db.run("DELETE FROM refusals WHERE id <= ?", number - _KEPT)


def refusals(
    db: Database, agents: Collection[str] | None, session_id: str | None, limit: int | None, offset: int
) -> list[Refusal]:
    """As `Store.refusals`."""
    conditions, values = ["TRUE"], []
    if agents is not None:
        conditions.append(f"agent IN ({', '.join('?' * len(agents))})")
        values += sorted(agents)
    if session_id is not None:
        conditions.append("session_id = ?")
        values.append(session_id)
    rows = db.all(
        "SELECT id, agent, trigger, session_id, kind, reason, at FROM refusals"
        f" WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ? OFFSET ?",
        *(*values, -1 if limit is None else limit, offset),
    )
    return [Refusal(r[0], r[1], TriggerKind(r[2]), r[3], RefusalKind(r[4]), r[5], r[6]) for r in rows]

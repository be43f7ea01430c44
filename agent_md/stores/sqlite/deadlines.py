"""Expires open requests whose deadline has passed. Must run inside `Database.write()`."""

from __future__ import annotations

from collections.abc import Sequence

from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Answer
from agent_md.executions.states import Outcome
from agent_md.ports.store import NewAnswer
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import ACTIVE, OPEN
from agent_md.stores.sqlite.shared_statements import add_answer, wake

__all__ = ["expire_overdue"]


def expire_overdue(db: Database, now: float, only: Sequence[RequestId] = ()) -> list[Answer]:
    """Records the expiry of open requests whose deadline has passed, of all or `only` these, and wakes their executions."""
    rows = db.all(
        f"SELECT r.id, r.execution_id, r.expires_at FROM request_states r JOIN executions x ON x.id = r.execution_id"
        f" WHERE {ACTIVE} AND r.expires_at <= ? AND {OPEN} ORDER BY r.seq",
        now,
    )
    expired = []
    for request_id, execution_id, deadline in rows:
        if only and request_id not in only:
            continue
        answer = NewAnswer(RequestId(request_id), Outcome.EXPIRED, None)
        expired.append(add_answer(db, ExecutionId(execution_id), answer, "timeout", now, decided_at=deadline))
        wake(db, ExecutionId(execution_id))
    return expired

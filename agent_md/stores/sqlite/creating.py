"""The creation of an execution: what refuses it, and the rows it begins as. Each must run inside `Database.write()`."""

from __future__ import annotations

import json

from agent_md.errors import ConversationWaiting, IdempotencyMismatch
from agent_md.executions.chat_messages import shown_text
from agent_md.executions.days import utc_text
from agent_md.executions.execution import NewExecution
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.states import EventType, Status
from agent_md.ports.store import Idempotency
from agent_md.stores.sqlite import shared_statements
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import ACTIVE, OPEN

__all__ = ["created_with", "insert_execution", "refuse_if_waiting", "removal_of"]


def created_with(db: Database, agent: str, idempotency: Idempotency) -> ExecutionId | None:
    """The execution of the agent that was created with this key. Raises IdempotencyMismatch for another body."""
    row = db.one(
        "SELECT id, idempotency_digest FROM executions WHERE agent = ? AND idempotency_key = ?", agent, idempotency.key
    )
    if row is None:
        _refuse_if_removed(db, agent, idempotency)
        return None
    if row[1] != idempotency.digest:
        raise IdempotencyMismatch(
            f"the idempotency key {idempotency.key!r} was used for execution {row[0]} with another body; "
            "nothing was created"
        )
    return ExecutionId(row[0])


def _refuse_if_removed(db: Database, agent: str, idempotency: Idempotency) -> None:
    row = db.one("SELECT execution_id FROM tombstones WHERE agent = ? AND idempotency_key = ?", agent, idempotency.key)
    if row is not None:
        raise IdempotencyMismatch(
            f"the idempotency key {idempotency.key!r} was used for execution {row[0]}, which was removed since; "
            "nothing was created"
        )


def removal_of(db: Database, execution_id: ExecutionId) -> str | None:
    """Says of an execution that was removed what is still known; None if there never was one."""
    if abs(execution_id) >= 2**63:
        return None
    row = db.one("SELECT agent, status, finished_at, removed_at FROM tombstones WHERE execution_id = ?", execution_id)
    if row is None:
        return None
    agent, status, finished_at, removed_at = row
    return (
        f"execution {execution_id} of {agent} ended at {utc_text(finished_at)} ({status}) and was removed at "
        f"{utc_text(removed_at)}, as retention.executions_days wants it"
    )


def refuse_if_waiting(db: Database, new: NewExecution, floor: int) -> None:
    """Raises ConversationWaiting if an execution of the same conversation, numbered above `floor`, or one below it has an
    open request."""
    rows = db.all(
        "SELECT DISTINCT x.id FROM executions x JOIN executions a ON a.root_id = x.id"
        " JOIN request_states r ON r.execution_id = a.id"
        f" WHERE {ACTIVE} AND x.agent = ? AND x.session_id IS ? AND x.parent_id IS NULL AND {OPEN}"
        " AND x.id > ? ORDER BY x.id",
        *(new.agent, new.session_id, floor),
    )
    if rows:
        ids = tuple(row[0] for row in rows)
        parallel = "" if new.exclusive else ", or set `on_pending: parallel`"  # a session takes one turn at a time
        raise ConversationWaiting(
            f"{new.agent} already waits for a human in this conversation (execution {', '.join(map(str, ids))}); "
            f"answer it with `agentmd respond {ids[0]}` or end it with `agentmd cancel {ids[0]}`{parallel}",
            ids,
        )


def insert_execution(
    db: Database,
    new: NewExecution,
    opening: str,
    *,
    spec: str,
    spec_digest: str,
    worker: WorkerId | None,
    idempotency: Idempotency | None,
    now: float,
    call: Position | None = None,
) -> ExecutionId:
    """Adds the execution with its spec, its `opening` as SqliteInitialMessages made it, and its `system` and `human` events. `call`:
    the call of its parent that starts it."""
    db.run("INSERT OR IGNORE INTO specs (digest, body) VALUES (?, ?)", spec_digest, spec)
    claimed = worker is not None
    (execution_id,) = db.one(
        "INSERT INTO executions (agent, spec_digest, trigger, session_id, parent_id, parent_turn, parent_idx, seed, status,"
        " worker, epoch, created_at, started_at, idempotency_key, idempotency_digest)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
        *(new.agent, spec_digest, new.trigger, new.session_id, new.parent_id),
        *(None if call is None else call.turn, None if call is None else call.index, opening),
        *(Status.RUNNING if claimed else Status.QUEUED, worker, int(claimed)),
        *(now, now if claimed else None),
        *(idempotency and idempotency.key, idempotency and idempotency.digest),
    )
    db.run(
        "UPDATE executions SET root_id = coalesce((SELECT p.root_id FROM executions p WHERE p.id = ?), id) WHERE id = ?",
        *(new.parent_id, execution_id),
    )
    started = {
        "agent": new.agent,
        "model": json.loads(spec).get("model"),
        "trigger": new.trigger,
        "session_id": new.session_id,
    }
    shared_statements.add_event(db, execution_id, "system", EventType.SYSTEM, "Started", started, now)
    if new.seed:
        human = new.seed[-1]
        content = human.get("data", {}).get("content")
        shared_statements.add_event(
            db, execution_id, "human", EventType.HUMAN, shown_text(content), {"message": human}, now
        )
    return ExecutionId(execution_id)

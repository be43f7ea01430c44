"""Executions that others have called. What writes must run inside `Database.write()`."""

from __future__ import annotations

import json
from typing import Any

from agent_md.executions.execution import Claim, Execution, NewChild, Spent, Usage
from agent_md.executions.ids import ChildWait, ExecutionId, RequestId, WaitId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.states import EventType, Status
from agent_md.stores.sqlite import creating, shared_statements
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import ACTIVE, FAMILY, OPEN, dump

__all__ = ["cancel", "end_child", "spent_by", "start_child", "tell_waiting", "waits"]


def waits(db: Database, execution_id: ExecutionId) -> dict[WaitId, bool]:
    """As `Store.waits`."""
    rows = db.all("SELECT id, kind, open FROM waits WHERE execution_id = ?", execution_id)
    return {(ChildWait(row[0]) if row[1] == "child" else RequestId(row[0])): bool(row[2]) for row in rows}


def spent_by(db: Database, execution_id: ExecutionId) -> Spent:
    """As `Store.spent_by`."""
    row = db.one(
        f"{FAMILY.format(id='?')} SELECT coalesce(sum(u.input_tokens), 0), coalesce(sum(u.output_tokens), 0),"
        " CASE WHEN count(*) = count(u.cost_usd) THEN coalesce(sum(u.cost_usd), 0.0) END,"
        " (SELECT count(*) FROM calls c WHERE c.execution_id IN family),"
        " (SELECT sum(x.work_ms) FROM executions x WHERE x.id IN family)"
        " FROM ledger u WHERE u.execution_id IN family",
        execution_id,
    )
    return Spent(Usage(row[0], row[1], row[2]), row[3], row[4] or 0)


def start_child(
    db: Database, parent_id: ExecutionId, position: Position, child: NewChild, worker: WorkerId | None, now: float
) -> None:
    """Creates the execution that a call starts, driven by the worker or queued."""
    child_id = creating.insert_execution(
        *(db, child.new, dump({"lead": list(child.new.seed[:-1])})),
        spec=child.spec,
        spec_digest=child.spec_digest,
        worker=worker,
        idempotency=None,
        now=now,
        call=position,
    )
    data = _told(parent_id, position, child_id, child.new.agent)
    key = f"child_started:{child_id}"
    shared_statements.tell(
        db, parent_id, key, EventType.CHILD_STARTED, f"{child.new.agent} (execution {child_id})", data, now
    )


def end_child(db: Database, ended: Execution, worker: WorkerId | None, now: float) -> None:
    """Tells the parent of an execution that has ended, if it has one. A parked parent goes on: driven by the worker, or
    queued."""
    if ended.parent_id is None:
        return
    data = _told(ended.parent_id, ended.position, ended.id, ended.agent) | {
        "status": ended.status,
        "error": ended.error,
    }
    key = f"child_ended:{ended.id}"
    text = f"{ended.agent} (execution {ended.id}): {ended.status}"
    shared_statements.tell(db, ended.parent_id, key, EventType.CHILD_ENDED, text, data, now)
    db.run(
        "UPDATE executions SET status = ?, worker = ?, epoch = epoch + ?, begun = NULL, work_mark = NULL"
        " WHERE id = ? AND status = ?",
        *(Status.QUEUED if worker is None else Status.RUNNING, worker, int(worker is not None)),
        *(ended.parent_id, Status.WAITING),
    )


def _told(parent_id: ExecutionId, position: Position | None, child_id: ExecutionId, agent: str) -> dict[str, Any]:
    return {
        "parent_execution_id": parent_id,
        "position": None if position is None else str(position),
        "child_execution_id": child_id,
        "agent_name": agent,
    }


def cancel(db: Database, execution_id: ExecutionId, by: str, *, itself: bool = True) -> None:
    """Notes that all below an execution are to be cancelled, and it `itself`; what has ended is left alone."""
    db.run(
        f"{FAMILY.format(id='?1')} UPDATE executions AS x SET cancelled_by = coalesce(cancelled_by, ?2)"
        f" WHERE x.id IN family AND {ACTIVE} AND (?3 OR x.id <> ?1)",
        *(execution_id, by, itself),
    )


def tell_waiting(db: Database, parked: Claim, now: float) -> None:
    """Tells that a parked execution waits for people, and of its root, if that is parked too."""
    _tell_open(db, parked.execution_id, f"waiting:{parked.epoch}", now)
    root, epoch, status = db.one(
        "SELECT o.id, o.epoch, o.status FROM executions x JOIN executions o ON o.id = x.root_id WHERE x.id = ?",
        parked.execution_id,
    )
    if root != parked.execution_id and status == Status.WAITING:
        before = _told_open(db, root)
        if before is None or before != _open_below(db, root):
            _tell_open(db, ExecutionId(root), f"waiting:{epoch}:{parked.execution_id}:{parked.epoch}", now)


def _open_below(db: Database, execution_id: int) -> list[str]:
    """The open requests of an execution and of all below it."""
    rows = db.all(
        f"{FAMILY.format(id='?')} SELECT r.id FROM request_states r WHERE r.execution_id IN family AND {OPEN} ORDER BY r.seq",
        execution_id,
    )
    return [row[0] for row in rows]


def _told_open(db: Database, execution_id: int) -> list[str] | None:
    """The open requests that its last `waiting` named."""
    row = db.one(
        "SELECT data FROM events WHERE execution_id = ? AND type = ? ORDER BY seq DESC LIMIT 1",
        *(execution_id, EventType.WAITING),
    )
    return None if row is None else list(json.loads(row[0])["request_ids"])


def _tell_open(db: Database, execution_id: ExecutionId, key: str, now: float) -> None:
    request_ids = _open_below(db, execution_id)
    if request_ids:
        message = "Waiting for an answer" if len(request_ids) == 1 else f"Waiting for {len(request_ids)} answers"
        data = {"request_ids": request_ids}
        shared_statements.add_event(db, execution_id, key, EventType.WAITING, message, data, now)

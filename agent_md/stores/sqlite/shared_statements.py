"""SQL statements that several transactions share. Each must run inside `Database.write()`."""

from __future__ import annotations

from typing import Any

from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Answer, NewRequest, RequestContent
from agent_md.executions.states import EventType, Outcome, Status
from agent_md.ports.store import NewAnswer
from agent_md.stores.sqlite import grants
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import dump, request_body, text_in

__all__ = ["add_answer", "add_event", "open_request", "tell", "tell_request", "wake"]


def add_event(
    db: Database, execution_id: ExecutionId, key: str, type: EventType, message: str, data: dict[str, Any], at: float
) -> bool:
    """Whether the event is new; one with this key is never written twice.

    A text that its message has too is stored there only; `to_event` gives it back."""
    if message == text_in(data) and _is_whole(message):
        message = ""
    changed = db.run(
        "INSERT OR IGNORE INTO events (execution_id, key, type, message, data, at) VALUES (?, ?, ?, ?, ?, ?)",
        *(execution_id, key, type, message, dump(data), at),
    )
    return changed == 1


def tell(
    db: Database, execution_id: ExecutionId, key: str, type: EventType, message: str, data: dict[str, Any], at: float
) -> None:
    """Adds an event to an execution, and to the one at the top, whose followers deal with all below it."""
    add_event(db, execution_id, key, type, message, data, at)
    (root,) = db.one("SELECT root_id FROM executions WHERE id = ?", execution_id)
    if root != execution_id:
        below = {"child_execution_id": execution_id, **data}
        add_event(db, ExecutionId(root), f"{execution_id}:{key}", type, message, below, at)


def _is_whole(text: str) -> bool:
    """Whether SQLite gives it back from JSON as it was: it ends at a NUL, and a lone surrogate is stored in two ways."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def open_request(db: Database, execution_id: ExecutionId, new: NewRequest, at: float) -> bool:
    """Whether the request is new; one that is there is left as it is."""
    changed = db.run(
        "INSERT OR IGNORE INTO requests (id, execution_id, turn, idx, source, kind, message, digest, occurrence, body,"
        " created_at, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(new.id, execution_id, new.position.turn, new.position.index, new.source, new.kind, new.message, new.digest),
        *(new.occurrence, request_body(new), at, None if new.expires_in is None else at + new.expires_in),
    )
    if changed == 1:
        tell_request(db, execution_id, new, at)
    return changed == 1


def tell_request(db: Database, execution_id: ExecutionId, new: RequestContent, at: float) -> None:
    """Adds the event of a request that was opened."""
    data = {"request_id": new.id, "kind": new.kind, "position": str(new.position), "tool_name": new.tool_name}
    tell(db, execution_id, f"request:{new.id}", EventType.INTERRUPT, new.message, data, at)


def add_answer(
    db: Database, execution_id: ExecutionId, answer: NewAnswer, by: str, at: float, *, decided_at: float | None = None
) -> Answer:
    """Decides an open request, at `decided_at` if that was before, with the grant that comes with it; its execution is not
    woken by this."""
    grant_id = None if answer.grant is None else grants.give(db, execution_id, answer.grant, by, at)
    decided = Answer(answer.request_id, answer.outcome, answer.value, by, decided_at or at, at, answer.digest, grant_id)
    db.run(
        "INSERT INTO answers (request_id, outcome, value, answered_by, answered_at, recorded_at, digest, grant_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        *(decided.request_id, decided.outcome, dump(decided.value), by, decided.answered_at, at, decided.digest),
        grant_id,
    )
    if answer.outcome is not Outcome.CANCELLED:
        data = {
            "request_id": answer.request_id,
            "outcome": answer.outcome,
            "value": answer.value,
            "answered_by": by,
            **({} if grant_id is None else {"grant_id": grant_id}),
        }
        tell(db, execution_id, f"answer:{answer.request_id}", EventType.RESUMED, str(answer.outcome), data, at)
    return decided


def wake(db: Database, execution_id: ExecutionId) -> None:
    """A waiting execution has work again."""
    db.run(
        "UPDATE executions SET status = ? WHERE id = ? AND status = ?",
        *(Status.QUEUED, execution_id, Status.WAITING),
    )

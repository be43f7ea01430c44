"""Which executions are wanted, as a condition on the rows of `EXECUTION`."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from agent_md.executions.ids import ExecutionId
from agent_md.executions.search import says
from agent_md.executions.states import EventType, Status
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import STATUS
from agent_md.stores.sqlite.settling import HAS_UNKNOWN

__all__ = ["conditions", "has_status"]

_SAYING = "EXISTS (SELECT 1 FROM events e WHERE e.execution_id = x.id AND says(e.type, e.message, e.data, ?))"


def conditions(
    db: Database,
    ids: Collection[ExecutionId] | None,
    statuses: Collection[Status],
    agents: Collection[str] | None,
    session_id: str | None,
    *,
    unknown: bool | None,
    since: float | None,
    containing: str | None,
) -> tuple[str, list[Any]]:
    """The condition with its values, for the filters of `Store.executions`."""
    wanted: dict[str, Collection[str] | None] = {
        "x.agent": agents,
        "x.session_id": None if session_id is None else (session_id,),
    }
    given = {column: values for column, values in wanted.items() if values is not None}
    # as constants of the statement, so that each can use its index
    found = [f"{column} IN ({', '.join('?' * len(values))})" for column, values in given.items()]
    values: list[Any] = [value for values in given.values() for value in values]
    if statuses:
        condition, stored = has_status(statuses)
        found.append(condition)
        values += stored
    if ids is not None:
        found.append("x.id IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(ids)))
    if unknown is not None:
        found.append(HAS_UNKNOWN if unknown else f"NOT {HAS_UNKNOWN}")
    if since is not None:
        found.append("x.created_at >= ?")
        values.append(since)
    if containing is not None:
        db.function("says", _says)
        found.append(_SAYING)
        values.append(containing)
    return " AND ".join(found) or "TRUE", values


def has_status(statuses: Collection[Status]) -> tuple[str, list[Any]]:
    """Of an execution `x`: the condition, with its values, that it has one of these statuses, as people are told it."""
    wanted = sorted(statuses)
    marks = ", ".join("?" * len(wanted))
    stored = f"x.status IN ({marks})"
    told = {Status.RUNNING, Status.WAITING}
    if not told & set(wanted) or told <= set(wanted):
        return stored, list(wanted)
    if Status.RUNNING in wanted:
        stored = f"x.status IN ({marks}, 'waiting')"
    return f"{stored} AND {STATUS} IN ({marks})", [*wanted, *wanted]


def _says(kind: str, message: str, data: str, wanted: str) -> bool:
    return says(EventType(kind), message, json.loads(data), wanted)

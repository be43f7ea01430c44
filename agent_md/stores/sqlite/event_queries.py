"""Queries for stored events."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import EventType
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import (
    EVENT,
    to_event,
)

__all__ = ["EventQueries"]


class EventQueries:
    """Queries for events, mixed into SqliteStore."""

    _db: Database

    def all_events(self, types: Collection[EventType], *, after: int = 0, limit: int | None = None) -> list[Event]:
        marks = ", ".join("?" * len(types))
        rows = self._db.all(
            f"{EVENT} WHERE seq > ? AND type IN ({marks}) ORDER BY seq LIMIT ?",
            *(after, *types, -1 if limit is None else limit),
        )
        return [to_event(row) for row in rows]

    def has_event(self, seq: int, execution_id: ExecutionId | None = None) -> bool:
        row = self._db.one("SELECT execution_id FROM events WHERE seq = ?", seq)
        return row is not None and execution_id in (None, row[0])

    def last_event(self) -> int:
        (last,) = self._db.one("SELECT coalesce(max(seq), 0) FROM events")
        return int(last)

    def touched(self, after: int) -> tuple[int, frozenset[ExecutionId]]:
        rows = self._db.all("SELECT seq, execution_id FROM events WHERE seq > ? ORDER BY seq", after)
        return (rows[-1][0] if rows else self.last_event()), frozenset(ExecutionId(row[1]) for row in rows)

    def events(self, execution_id: ExecutionId, *, after: int = 0, limit: int | None = None) -> list[Event]:
        rows = self._db.all(
            f"{EVENT} WHERE execution_id = ? AND seq > ? ORDER BY seq LIMIT ?",
            *(execution_id, after, -1 if limit is None else limit),
        )
        return [to_event(row) for row in rows]

    def version(self) -> int:
        return self._db.version()

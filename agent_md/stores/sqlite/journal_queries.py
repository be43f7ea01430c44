"""Queries for what drivers wrote: AI messages, calls and steps."""

from __future__ import annotations

import json
from typing import Any

from agent_md.executions.calls import Call, StepRecord
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import (
    CALL,
    to_call,
    to_step,
)

__all__ = ["JournalQueries"]


class JournalQueries:
    """Queries for AI messages, calls and steps, mixed into SqliteStore."""

    _db: Database

    def model_step(self, execution_id: ExecutionId, turn: int) -> dict[str, Any] | None:
        row = self._db.one("SELECT data FROM events WHERE execution_id = ? AND key = ?", execution_id, f"ai:{turn}")
        return None if row is None else json.loads(row[0])["message"]

    def call(self, execution_id: ExecutionId, position: Position) -> Call | None:
        row = self._db.one(
            f"{CALL} WHERE c.execution_id = ? AND c.turn = ? AND c.idx = ?",
            *(execution_id, position.turn, position.index),
        )
        return None if row is None else to_call(row)

    def calls(self, execution_id: ExecutionId, *, turn: int | None = None) -> list[Call]:
        one_turn, values = ("", ()) if turn is None else (" AND c.turn = ?", (turn,))
        rows = self._db.all(f"{CALL} WHERE c.execution_id = ?{one_turn} ORDER BY c.turn, c.idx", execution_id, *values)
        return [to_call(row) for row in rows]

    def steps(self, execution_id: ExecutionId, position: Position) -> dict[int, StepRecord]:
        rows = self._db.all(
            "SELECT number, function, state, result, error FROM steps"
            " WHERE execution_id = ? AND turn = ? AND idx = ? ORDER BY number",
            *(execution_id, position.turn, position.index),
        )
        return {row[0]: to_step(row[1:]) for row in rows}

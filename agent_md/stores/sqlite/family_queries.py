"""Queries for executions that call others."""

from __future__ import annotations

from agent_md.executions.execution import Execution, Spent
from agent_md.executions.ids import ExecutionId, WaitId
from agent_md.executions.positions import Position
from agent_md.stores.sqlite import family
from agent_md.stores.sqlite.execution_queries import ExecutionQueries
from agent_md.stores.sqlite.rows import EXECUTION, FAMILY, to_execution

__all__ = ["FamilyQueries"]


class FamilyQueries(ExecutionQueries):
    """Queries for families, mixed into SqliteStore."""

    def family(self, execution_id: ExecutionId) -> list[Execution]:
        rows = self._db.all(
            f"{FAMILY.format(id='?')}{EXECUTION} JOIN family ON family.id = x.id ORDER BY x.id",
            self.execution(execution_id).id,
        )
        return [to_execution(row) for row in rows]

    def line(self, execution_id: ExecutionId) -> list[Execution]:
        found = [self.execution(execution_id)]
        while (parent := found[0].parent_id) is not None:
            found.insert(0, self.execution(parent))
        return found

    def child(self, execution_id: ExecutionId, position: Position) -> Execution | None:
        row = self._db.one(
            f"{EXECUTION} WHERE x.parent_id = ? AND x.parent_turn = ? AND x.parent_idx = ?",
            *(execution_id, position.turn, position.index),
        )
        return None if row is None else to_execution(row)

    def spent_by(self, execution_id: ExecutionId) -> Spent:
        return family.spent_by(self._db, execution_id)

    def waits(self, execution_id: ExecutionId) -> dict[WaitId, bool]:
        return family.waits(self._db, execution_id)

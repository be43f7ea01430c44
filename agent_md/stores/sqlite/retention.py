"""What may be thrown away, on SQLite."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.executions.model import ExecutionId
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import ACTIVE, dump

__all__ = ["SqliteRetention"]


class SqliteRetention:
    """`agent_md.ports.Retention` on SQLite."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def latest(self) -> frozenset[ExecutionId]:
        rows = self._db.all(
            "SELECT max(id) FROM executions WHERE session_id IS NULL AND parent_id IS NULL GROUP BY agent"
        )
        return frozenset(ExecutionId(row[0]) for row in rows)

    def renew_threads(self, execution_ids: Collection[ExecutionId]) -> frozenset[ExecutionId]:
        with self._db.write():
            rows = self._db.all(
                "UPDATE executions AS x SET thread = thread + 1 WHERE id IN (SELECT value FROM json_each(?))"
                f" AND {ACTIVE} AND x.status <> 'running' RETURNING id",
                dump(list(execution_ids)),
            )
        return frozenset(ExecutionId(row[0]) for row in rows)

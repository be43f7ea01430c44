"""Queries for old data in SQLite."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.executions.ids import ExecutionId
from agent_md.executions.retention import Removable
from agent_md.ports.clock import Clock
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.initial_messages import SqliteInitialMessages
from agent_md.stores.sqlite.removing import Removals
from agent_md.stores.sqlite.rows import ACTIVE, dump

__all__ = ["SqliteRetention"]

_PAGES = 256
_FIRINGS = 1000
"""So many of each go in one transaction, at most."""


class SqliteRetention:
    """`agent_md.ports.Retention` on SQLite."""

    def __init__(self, db: Database, openings: SqliteInitialMessages, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._removals = Removals(db, openings)

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

    def removable(self, ended_before: float) -> Removable:
        found = self._removals.removable(ended_before, self.latest())
        if found.ids:
            self._removals.settle_kept(found)
        return found

    def remove_some(self, removable: Removable) -> tuple[list[ExecutionId], Removable]:
        return self._removals.remove(removable, self._clock())

    def remove_skipped_firings(self, keep: int) -> int:
        for (agent,) in self._db.all("SELECT DISTINCT agent_key FROM firings WHERE state = 'skipped'"):
            last = self._db.one(
                "SELECT id FROM firings WHERE agent_key = ? AND state = 'skipped' ORDER BY id DESC LIMIT 1 OFFSET ?",
                *(agent, keep),
            )
            if last is not None:
                with self._db.write():
                    return self._db.run(
                        "DELETE FROM firings WHERE id IN (SELECT id FROM firings"
                        " WHERE agent_key = ? AND state = 'skipped' AND id <= ? ORDER BY id LIMIT ?)",
                        *(agent, last[0], _FIRINGS),
                    )
        return 0

    def give_back_some(self) -> bool:
        (free,) = self._db.one("PRAGMA freelist_count")
        with self._db.write():
            for _ in range(min(free, _PAGES)):
                self._db.run("PRAGMA incremental_vacuum(1)")  # Python's sqlite3 does one page at a time
        (left,) = self._db.one("PRAGMA freelist_count")
        if not left:
            self._db.all("PRAGMA wal_checkpoint(PASSIVE)")
        return bool(0 < left < free)

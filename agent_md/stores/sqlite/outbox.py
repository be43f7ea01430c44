"""The outbox of webhooks in SQLite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from agent_md.errors import StateDirUnusable
from agent_md.executions.deliveries import MESSAGE_TARGET, Delivery, HookEvent, NewDelivery
from agent_md.executions.execution import HookTarget
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.ports.clock import Clock
from agent_md.ports.workers import Workers
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import dump

__all__ = ["SqliteOutbox"]

_LISTED = "(SELECT value FROM json_each(?))"


class SqliteOutbox:
    """`agent_md.ports.Outbox` on SQLite."""

    def __init__(self, db: Database, workers: Workers, clock: Clock) -> None:
        self._db = db
        self._workers = workers
        self._clock = clock

    def cursor(self) -> int:
        (seq,) = self._db.one("SELECT seq FROM webhook_cursor")
        return int(seq)

    def enqueue(self, new: Sequence[NewDelivery], *, after: int, upto: int) -> bool:
        with self._db.write():
            if self._db.run("UPDATE webhook_cursor SET seq = ? WHERE seq = ?", upto, after) != 1:
                return False
            for delivery in new:
                self._db.run(
                    "INSERT OR IGNORE INTO deliveries (event_id, event, execution_id, target, lane, event_at, due_at,"
                    " request_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    *(delivery.event_id, delivery.event, delivery.execution_id, delivery.target, delivery.lane),
                    *(delivery.event_at, delivery.due_at, delivery.request_id),
                )
        return True

    def target(self, execution_id: ExecutionId) -> HookTarget | None:
        row = self._db.one(
            "SELECT url, token, secret, include_messages FROM webhook_targets WHERE execution_id = ?", execution_id
        )
        return None if row is None else HookTarget(row[0], row[1], row[2], bool(row[3]))

    def next_due(self, *, mine: Collection[str]) -> float | None:
        (due,) = self._db.one(f"SELECT min(due_at) FROM deliveries WHERE event_id NOT IN {_LISTED}", _list(mine))
        return None if due is None else float(due)

    def undelivered(self, execution_ids: Collection[ExecutionId]) -> int:
        listed = dump(list(execution_ids))
        (count,) = self._db.one(f"SELECT count(*) FROM deliveries WHERE execution_id IN {_LISTED}", listed)
        return int(count)

    def claim(
        self, worker: WorkerId, *, mine: Collection[str], full: Collection[str], first: bool = False
    ) -> Delivery | None:
        with self._db.write():
            now = self._clock()
            row = self._db.one(
                f"SELECT event_id FROM deliveries WHERE due_at <= ? AND event_id NOT IN {_LISTED}"
                f" AND lane NOT IN {_LISTED} AND (holder IS NULL OR holder NOT IN {_LISTED})"
                " AND (NOT ? OR attempts = 0) ORDER BY due_at, event_id LIMIT 1",
                *(now, _list(mine), _list(full), _list(self._others(worker)), first),
            )
            if row is None:
                return None
            taken = self._db.one(
                "UPDATE deliveries SET holder = ?, attempts = attempts + 1, first_at = coalesce(first_at, ?)"
                " WHERE event_id = ? RETURNING event_id, event, execution_id, target, lane, event_at, due_at,"
                " request_id, attempts, first_at, body",
                *(worker, now, row[0]),
            )
        return _to_delivery(taken)

    def _others(self, worker: WorkerId) -> list[str]:
        """The other workers that hold deliveries and live, or may live."""
        rows = self._db.all("SELECT DISTINCT holder FROM deliveries WHERE holder IS NOT NULL AND holder <> ?", worker)
        return [holder for (holder,) in rows if self._may_live(WorkerId(holder))]

    def _may_live(self, worker: WorkerId) -> bool:
        with suppress(StateDirUnusable):
            return self._workers.alive(worker)
        return True

    def freeze(self, event_id: str, body: str, *, told: Collection[str]) -> bool:
        with self._db.write():
            if self._db.run("UPDATE deliveries SET body = ? WHERE event_id = ?", body, event_id) != 1:
                return False
            self._db.run(
                f"DELETE FROM deliveries WHERE body IS NULL AND request_id IN {_LISTED} AND (execution_id, target) ="
                " (SELECT execution_id, target FROM deliveries WHERE event_id = ?)",
                *(_list(told), event_id),
            )
        return True

    def postpone(self, event_id: str, until: float) -> None:
        with self._db.write():
            self._db.run("UPDATE deliveries SET due_at = ?, holder = NULL WHERE event_id = ?", until, event_id)

    def finish(self, event_id: str) -> None:
        with self._db.write():
            row = self._db.one(
                "DELETE FROM deliveries WHERE event_id = ? RETURNING event, execution_id, target", event_id
            )
            if row is not None and row[2] == MESSAGE_TARGET and row[0] != HookEvent.INTERRUPT:
                self._db.run("DELETE FROM deliveries WHERE execution_id = ? AND target = ?", *row[1:])
                self._db.run("DELETE FROM webhook_targets WHERE execution_id = ?", row[1])

    # For the store, inside the transaction that creates an execution

    def keep_target(self, execution_id: ExecutionId, target: HookTarget) -> None:
        """Keeps the target that came with the message of a new execution."""
        self._db.run(
            "INSERT INTO webhook_targets (execution_id, url, token, secret, include_messages) VALUES (?, ?, ?, ?, ?)",
            *(execution_id, target.url, target.token, target.secret, int(target.include_messages)),
        )


def _list(items: Collection[str]) -> str:
    return dump(list(items))


def _to_delivery(row: Any) -> Delivery:
    return Delivery(
        event_id=row[0],
        event=HookEvent(row[1]),
        execution_id=ExecutionId(row[2]),
        target=row[3],
        lane=row[4],
        event_at=row[5],
        due_at=row[6],
        request_id=None if row[7] is None else RequestId(row[7]),
        attempts=row[8],
        first_at=row[9],
        body=row[10],
    )

"""The outbox in memory: the fake of `agent_md.ports.Outbox`, held to the same contract suite as the real one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace

from agent_md.executions.deliveries import MESSAGE_TARGET, Delivery, HookEvent, NewDelivery
from agent_md.executions.execution import HookTarget
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.ports.workers import Workers
from tests.support.memory_state import MemoryState

__all__ = ["MemoryOutbox"]


@dataclass(frozen=True)
class _Row:
    new: NewDelivery
    due_at: float
    attempts: int = 0
    first_at: float | None = None
    body: str | None = None
    holder: WorkerId | None = None


class MemoryOutbox:
    """The `Outbox` port on the tables of a `MemoryState`."""

    def __init__(self, state: MemoryState, workers: Workers) -> None:
        self._state = state
        self._workers = workers

    @property
    def _rows(self) -> dict[str, _Row]:
        return self._state.deliveries

    def cursor(self) -> int:
        return self._state.hook_cursor

    def enqueue(self, new: Sequence[NewDelivery], *, after: int, upto: int) -> bool:
        with self._state.transaction():
            if self._state.hook_cursor != after:
                return False
            self._state.version += 1
            self._state.hook_cursor = upto
            for delivery in new:
                self._rows.setdefault(delivery.event_id, _Row(delivery, delivery.due_at))
            return True

    def target(self, execution_id: ExecutionId) -> HookTarget | None:
        return self._state.hooks.get(execution_id)

    def next_due(self, *, mine: Collection[str]) -> float | None:
        with self._state.lock:
            return min((row.due_at for event_id, row in self._rows.items() if event_id not in mine), default=None)

    def undelivered(self, execution_ids: Collection[ExecutionId]) -> int:
        with self._state.lock:
            return sum(row.new.execution_id in execution_ids for row in self._rows.values())

    def claim(
        self, worker: WorkerId, *, mine: Collection[str], full: Collection[str], first: bool = False
    ) -> Delivery | None:
        with self._state.transaction():
            now = self._state.now()
            free = [
                (row.due_at, event_id)
                for event_id, row in self._rows.items()
                if row.due_at <= now and event_id not in mine and row.new.lane not in full and self._free(row, worker)
                if not (first and row.attempts)
            ]
            if not free:
                return None
            event_id = min(free)[1]
            row = self._rows[event_id]
            first_at = now if row.first_at is None else row.first_at
            row = self._change(event_id, holder=worker, attempts=row.attempts + 1, first_at=first_at)
            told = {**asdict(row.new), "due_at": row.due_at}
            return Delivery(**told, attempts=row.attempts, first_at=first_at, body=row.body)

    def _free(self, row: _Row, worker: WorkerId) -> bool:
        return row.holder in (None, worker) or not self._workers.alive(row.holder)

    def _change(self, event_id: str, **fields: object) -> _Row:
        self._state.version += 1
        self._rows[event_id] = replace(self._rows[event_id], **fields)  # type: ignore[arg-type]
        return self._rows[event_id]

    def freeze(self, event_id: str, body: str, *, told: Collection[str]) -> bool:
        with self._state.transaction():
            if event_id not in self._rows:
                return False
            whose = self._change(event_id, body=body).new
            for other, row in list(self._rows.items()):
                same = (row.new.execution_id, row.new.target) == (whose.execution_id, whose.target)
                if same and row.body is None and row.new.request_id in told:
                    del self._rows[other]
            return True

    def postpone(self, event_id: str, until: float) -> None:
        with self._state.transaction():
            if event_id in self._rows:
                self._change(event_id, due_at=until, holder=None)

    def finish(self, event_id: str) -> None:
        with self._state.transaction():
            self._state.version += 1
            row = self._rows.pop(event_id, None)
            if row is None or row.new.target != MESSAGE_TARGET or row.new.event is HookEvent.INTERRUPT:
                return
            whose = row.new.execution_id
            self._state.hooks.pop(whose, None)
            for other, left in list(self._rows.items()):
                if (left.new.execution_id, left.new.target) == (whose, MESSAGE_TARGET):
                    del self._rows[other]

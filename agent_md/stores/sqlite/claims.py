"""Who drives an execution: claims, and what the death of a worker means for what it drove."""

from __future__ import annotations

from contextlib import suppress

from agent_md.errors import StateDirUnusable, StoreFull, StoreReadOnly
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.positions import Position, place_of_call
from agent_md.executions.states import Status
from agent_md.ports.clock import Clock
from agent_md.ports.workers import Workers
from agent_md.stores.sqlite import spending
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import EXECUTION, to_execution

__all__ = ["Claims", "add_attempt", "place_in_flight"]


def place_in_flight(db: Database, execution_id: ExecutionId, epoch: int) -> str | None:
    """Where the drive of this epoch is, in words: its first started call, else what was begun; None before that."""
    call = db.one(
        "SELECT turn, idx, tool FROM calls WHERE execution_id = ? AND epoch = ? AND state = 'started'"
        " ORDER BY turn, idx LIMIT 1",
        *(execution_id, epoch),
    )
    if call is not None:
        return place_of_call(Position(call[0], call[1]), call[2])
    (begun,) = db.one("SELECT begun FROM executions WHERE id = ?", execution_id)
    return None if begun is None else str(begun)


def add_attempt(db: Database, execution_id: ExecutionId, place: str) -> int:
    """Counts an attempt that ended at this place; gives how many in a row did."""
    (count,) = db.one(
        "INSERT INTO attempts (execution_id, place, count) VALUES (?, ?, 1)"
        " ON CONFLICT (execution_id, place) DO UPDATE SET count = count + 1 RETURNING count",
        *(execution_id, place),
    )
    return int(count)


class Claims:
    """The part of the store that knows workers. What takes no transaction of its own must run inside one."""

    def __init__(self, db: Database, workers: Workers, clock: Clock) -> None:
        self._db = db
        self._workers = workers
        self._clock = clock

    def claim(self, execution_id: ExecutionId, worker: WorkerId, *, waiting: bool, suspects: bool) -> Claim | None:
        """Takes an execution that is queued, or that nobody alive drives, or a parked one that is to be cancelled or, with
        `waiting`, any; its own transaction."""
        self.settle_deaths()
        with self._db.write():
            execution = self._execution(execution_id)
            if execution is None or (execution.suspect and not suspects):
                return None
            is_to_be_closed = execution.parked and (waiting or execution.cancelled_by is not None)
            if execution.status is not Status.QUEUED and not is_to_be_closed:
                return None
            return self.take(execution, worker)

    def take(self, execution: Execution, worker: WorkerId) -> Claim:
        """Gives a free execution to the worker."""
        epoch = execution.epoch + 1
        spending.free(self._db, execution.id)
        self._db.run(
            "UPDATE executions SET status = ?, worker = ?, epoch = ?, begun = NULL, work_mark = NULL,"
            " started_at = coalesce(started_at, max(?, created_at)) WHERE id = ?",
            *(Status.RUNNING, worker, epoch, self._clock(), execution.id),
        )
        return Claim(execution.id, worker, epoch)

    def abandoned(self) -> list[Execution]:
        rows = self._db.all(
            f"{EXECUTION} WHERE x.status IN ('queued', 'running')"
            " OR (x.status = 'waiting' AND x.cancelled_by IS NOT NULL) ORDER BY x.id"
        )
        executions = [to_execution(row) for row in rows]
        return [x for x in executions if x.parked or x.status is not Status.RUNNING or not self._lives(x.worker)]

    def settle_deaths(self) -> None:
        driving = self._db.all("SELECT DISTINCT worker FROM executions WHERE status = 'running'")
        dead = [worker for (worker,) in driving if not self._lives(worker)]
        for worker in dead:
            with self._db.write():
                self._settle(worker)
                self._db.run("DELETE FROM workers WHERE id = ?", worker)
            if worker is not None:
                self._workers.forget(worker)

    def _settle(self, worker: WorkerId | None) -> None:
        rows = self._db.all(
            "SELECT id, epoch, work_mark FROM executions WHERE status = 'running' AND worker IS ?", worker
        )
        places = {row[0]: place_in_flight(self._db, row[0], row[1]) for row in rows}
        in_flight = {execution_id: place for execution_id, place in places.items() if place is not None}
        if worker is None or self._workers.ended_by_order(worker):
            in_flight = {}
        worked = 0 if worker is None else self._workers.worked(worker)
        for execution_id, _, mark in rows:
            spending.free(self._db, ExecutionId(execution_id))
            lost = 0 if mark is None else max(0, worked - mark)
            self._db.run(
                "UPDATE executions SET status = 'queued', worker = NULL, begun = NULL, work_mark = NULL,"
                " work_ms = work_ms + ?, suspect = suspect OR ? WHERE id = ?",
                *(lost, execution_id in in_flight, execution_id),
            )
        if len(in_flight) == 1:
            ((execution_id, place),) = in_flight.items()
            add_attempt(self._db, execution_id, place)

    def _lives(self, worker: WorkerId | None) -> bool:
        return worker is not None and self._workers.alive(worker)

    def _execution(self, execution_id: ExecutionId) -> Execution | None:
        row = self._db.one(f"{EXECUTION} WHERE x.id = ?", execution_id)
        return None if row is None else to_execution(row)

    # Workers

    def register(self, worker: WorkerId, pid: int) -> None:
        """Rows and lock files of dead workers go, but of those whose executions are still to be taken over."""
        dead = self._workers.dead()  # before it is asked what they drive: they take nothing any more
        with self._db.write():
            needed = {row[0] for row in self._db.all("SELECT worker FROM executions WHERE status = 'running'")}
            for (other,) in self._db.all("SELECT id FROM workers"):
                with suppress(StateDirUnusable):  # it is not known whether that one lives
                    if other not in needed and not self._workers.alive(WorkerId(other)):
                        self._db.run("DELETE FROM workers WHERE id = ?", other)
            self._db.run("INSERT INTO workers (id, pid, started_at) VALUES (?, ?, ?)", worker, pid, self._clock())
        for gone in dead:
            if gone not in needed:
                self._workers.forget(gone)

    def forget(self, worker: WorkerId) -> None:
        """A row that cannot be removed now goes when the next worker comes."""
        with suppress(StoreFull, StoreReadOnly), self._db.write():
            self._db.run("DELETE FROM workers WHERE id = ?", worker)

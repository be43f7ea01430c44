"""The store on SQLite; every method is one statement or one short transaction."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_md.errors import BudgetSpent, ConversationWaiting, StoreFull, StoreReadOnly, UnknownExecution
from agent_md.executions.calls import Call, Settlement, StepRecord
from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.execution import Claim, Event, Execution, NewExecution
from agent_md.executions.firings import FiringId
from agent_md.executions.given_answers import AnswerFilter, GivenAnswer
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Answer, Request, Retraction
from agent_md.executions.spending import Refusal, RefusalKind, Scope
from agent_md.executions.states import EventType, Status
from agent_md.ports.clock import Clock
from agent_md.ports.journal import Journal
from agent_md.ports.store import AnswerReceipt, Idempotency, NewAnswer
from agent_md.ports.workers import Workers
from agent_md.stores.sqlite import creating, ledger, settling, shared_statements, spending
from agent_md.stores.sqlite.answering import SqliteAnswers
from agent_md.stores.sqlite.claims import Claims
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.execution_filter import conditions
from agent_md.stores.sqlite.firings import SqliteFirings
from agent_md.stores.sqlite.given_answers import given_answers
from agent_md.stores.sqlite.grants import SqliteGrants
from agent_md.stores.sqlite.initial_messages import SqliteOpenings, messages_of
from agent_md.stores.sqlite.journal import SqliteJournal
from agent_md.stores.sqlite.outbox import SqliteOutbox
from agent_md.stores.sqlite.refusals import add_refusal, refusals
from agent_md.stores.sqlite.retention import SqliteRetention
from agent_md.stores.sqlite.rows import (
    ACTIVE,
    CALL,
    EVENT,
    EXECUTION,
    to_call,
    to_event,
    to_execution,
    to_step,
)
from agent_md.stores.sqlite.sessions import SqliteSessions

__all__ = ["SqliteStore"]


class SqliteStore:
    """`agent_md.ports.Store` on SQLite."""

    def __init__(self, path: Path | None, *, workers: Workers, clock: Clock = time.time, frozen: bool = False) -> None:
        """Opens or makes the database at `path`; None = an empty one in memory. Raises as Database does."""
        self._db = Database(path, frozen=frozen)
        self._workers = workers
        self._clock = clock
        self._openings = SqliteOpenings(self._db)
        self._claims = Claims(self._db, workers, clock)
        self._answers = SqliteAnswers(self._db, self._claims, clock)
        self.sessions = SqliteSessions(self._db, clock)
        self.outbox = SqliteOutbox(self._db, workers, clock)
        self.firings = SqliteFirings(self._db, clock)
        self.grants = SqliteGrants(self._db, clock)
        self.retention = SqliteRetention(self._db, self._openings, clock)

    @classmethod
    def for_reading(cls, path: Path, *, workers: Workers) -> SqliteStore:
        """The store for one who only reads: it opens also where nothing can be written, and then shows what is there.

        Overdue requests are settled if they can be."""
        with suppress(StoreReadOnly, StoreFull):
            store = cls(path, workers=workers)
            with suppress(StoreReadOnly, StoreFull):
                store.settle_overdue()
            return store
        return cls(path, workers=workers, frozen=True)  # not while an error still holds the first connection

    def close(self) -> None:
        self._db.close()

    # Executions

    def create(
        self,
        new: NewExecution,
        *,
        spec: str,
        spec_digest: str,
        skip_if_waiting: bool,
        worker: WorkerId | None,
        idempotency: Idempotency | None = None,
        firing: FiringId | None = None,
    ) -> Execution:
        try:
            return self._create(new, spec, spec_digest, skip_if_waiting, worker, idempotency, firing)
        except (ConversationWaiting, BudgetSpent) as refused:
            if firing is not None:  # whose row says why
                raise
            kind = RefusalKind.BUDGET if isinstance(refused, BudgetSpent) else RefusalKind.PENDING
            with self._db.write():
                add_refusal(self._db, new, kind, str(refused), self._clock())
            raise

    def _create(
        self,
        new: NewExecution,
        spec: str,
        spec_digest: str,
        skip_if_waiting: bool,
        worker: WorkerId | None,
        idempotency: Idempotency | None,
        firing: FiringId | None,
    ) -> Execution:
        with self._db.write():
            now = self._clock()
            first = None if idempotency is None else creating.created_with(self._db, new.agent, idempotency)
            if first is not None:
                return self.execution(first)
            conversation = self.sessions.conversation(new)
            if skip_if_waiting and new.parent_id is None:
                shared_statements.expire_overdue(self._db, now)
                creating.refuse_if_waiting(self._db, new, conversation.floor)
            if new.budget is not None:
                spending.refuse_if_spent(self._db, new, new.budget)
            self.sessions.enter(new, conversation)
            opening = self._openings.made(new, conversation)
            execution_id = creating.insert_execution(
                *(self._db, new, opening),
                spec=spec,
                spec_digest=spec_digest,
                worker=worker,
                idempotency=idempotency,
                now=now,
            )
            if new.hook is not None:
                self.outbox.keep_target(execution_id, new.hook)
            if firing is not None:
                self.firings.start(firing, execution_id)
            return self.execution(execution_id)

    def execution(self, execution_id: ExecutionId) -> Execution:
        row = self._db.one(f"{EXECUTION} WHERE x.id = ?", execution_id) if abs(execution_id) < 2**63 else None
        if row is None:
            raise UnknownExecution(
                creating.removal_of(self._db, execution_id)
                or f"there is no execution {execution_id}; `agentmd logs` lists them"
            )
        return to_execution(row)

    def executions(
        self,
        *,
        ids: Collection[ExecutionId] | None = None,
        statuses: Collection[Status] = (),
        agent: str | Collection[str] | None = None,
        session_id: str | None = None,
        unknown: bool | None = None,
        since: float | None = None,
        saying: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Execution]:
        agents = (agent,) if isinstance(agent, str) else agent
        where, values = conditions(
            *(self._db, ids, statuses, agents, session_id), unknown=unknown, since=since, saying=saying
        )
        rows = self._db.all(
            f"{EXECUTION} WHERE {where} ORDER BY x.id DESC LIMIT ? OFFSET ?",
            *(*values, -1 if limit is None else limit, offset),
        )
        return [to_execution(row) for row in rows]

    def agent_names(self) -> list[str]:
        rows = self._db.all(  # one step of the index for each name
            "WITH RECURSIVE names (name) AS (SELECT min(agent) FROM executions UNION ALL"
            " SELECT (SELECT min(agent) FROM executions WHERE agent > name) FROM names WHERE name IS NOT NULL)"
            " SELECT name FROM names WHERE name IS NOT NULL"
        )
        return [row[0] for row in rows]

    def count(self, statuses: Collection[Status]) -> int:
        marks = ", ".join("?" * len(statuses))
        (number,) = self._db.one(f"SELECT count(*) FROM executions WHERE status IN ({marks})", *statuses)
        return int(number)

    def spent(self, since: float, agent: str | None = None) -> float | None:
        scope = Scope.WORKSPACE if agent is None else Scope.AGENT
        return ledger.spent(self._db, scope, agent or "", since)

    def costs(self, by: CostBy, *, agents: Collection[str] | None = None, since: float | None = None) -> list[Cost]:
        return ledger.costs(self._db, by, agents, since)

    def refusals(
        self,
        *,
        agents: Collection[str] | None = None,
        session_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Refusal]:
        return refusals(self._db, agents, session_id, limit, offset)

    def seed(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        self.execution(execution_id)
        return self._openings.read(execution_id)

    def in_thread(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        return self._openings.in_thread(execution_id)

    def said(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        own = messages_of(self._db, [execution_id]).get(execution_id, [])
        return [message for message in own if message["type"] != "human"]

    def spec(self, execution_id: ExecutionId) -> str:
        self.execution(execution_id)
        (body,) = self._db.one(
            "SELECT s.body FROM specs s JOIN executions x ON x.spec_digest = s.digest WHERE x.id = ?", execution_id
        )
        return str(body)

    def claim(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        self.execution(execution_id)
        return self._claims.claim(execution_id, worker, (Status.QUEUED,), suspects=suspects)

    def claim_to_cancel(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        self.execution(execution_id)
        return self._claims.claim(execution_id, worker, (Status.QUEUED, Status.WAITING), suspects=suspects)

    def abandoned(self) -> list[Execution]:
        return self._claims.abandoned()

    def settle_deaths(self) -> None:
        self._claims.settle_deaths()

    def request_cancel(self, execution_id: ExecutionId, by: str) -> Execution:
        with self._db.write():
            self._db.run(
                f"UPDATE executions AS x SET cancelled_by = coalesce(cancelled_by, ?) WHERE id = ? AND {ACTIVE}",
                *(by, execution_id if abs(execution_id) < 2**63 else None),
            )
            return self.execution(execution_id)

    def journal(self, claim: Claim) -> Journal:
        return SqliteJournal(self._db, claim, self._clock, self._workers)

    # What the journal holds

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

    def settle_call(
        self, execution_id: ExecutionId, position: Position, *, ran: bool, note: str | None, by: str
    ) -> Settlement:
        with self._db.write():
            self.execution(execution_id)
            call = self.call(execution_id, position)
            return settling.settle(self._db, execution_id, position, call, Settlement(ran, note, by, self._clock()))

    # Requests and answers

    def request(self, request_id: RequestId) -> Request:
        return self._answers.request(request_id)

    def requests(self, execution_id: ExecutionId) -> list[Request]:
        return self._answers.of_execution(execution_id)

    def open_requests(self, *, limit: int | None = None, offset: int = 0) -> list[Request]:
        return self._answers.open_requests(limit, offset)

    def given_answers(self, wanted: AnswerFilter, *, limit: int | None = None) -> list[GivenAnswer]:
        return given_answers(self._db, wanted, limit)

    def next_deadline(self) -> float | None:
        return self._answers.next_deadline()

    def record_answers(
        self, answers: Sequence[NewAnswer], *, by: str, claim_for: WorkerId | None = None
    ) -> AnswerReceipt:
        return self._answers.record(answers, by, claim_for)

    def retract(self, request_id: RequestId, *, by: str) -> Retraction:
        return self._answers.retract(request_id, by)

    def settle_overdue(self) -> list[Answer]:
        return self._answers.settle_overdue()

    # Events

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

    # Workers

    def register_worker(self, worker: WorkerId, pid: int) -> None:
        self._claims.register(worker, pid)

    def worker_pid(self, worker: WorkerId) -> int | None:
        row = self._db.one("SELECT pid FROM workers WHERE id = ?", worker)
        return None if row is None else int(row[0])

    def forget_worker(self, worker: WorkerId) -> None:
        self._claims.forget(worker)

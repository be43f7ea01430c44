"""The store in SQLite; every method is one statement or one short transaction."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agent_md.errors import BudgetSpent, ConversationWaiting, StoreFull, StoreReadOnly
from agent_md.executions.calls import Settlement
from agent_md.executions.execution import Claim, Execution, NewExecution
from agent_md.executions.firings import FiringId
from agent_md.executions.given_answers import AnswerFilter, GivenAnswer
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Answer, Request, Retraction
from agent_md.executions.spending import RefusalKind
from agent_md.ports.clock import Clock
from agent_md.ports.journal import Journal
from agent_md.ports.store import AnswerReceipt, Idempotency, NewAnswer
from agent_md.ports.workers import Workers
from agent_md.stores.sqlite import creating, family, settling, spending
from agent_md.stores.sqlite.answering import SqliteAnswers
from agent_md.stores.sqlite.claims import Claims
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.deadlines import expire_overdue
from agent_md.stores.sqlite.event_queries import EventQueries
from agent_md.stores.sqlite.family_queries import FamilyQueries
from agent_md.stores.sqlite.firings import SqliteFirings
from agent_md.stores.sqlite.given_answers import given_answers
from agent_md.stores.sqlite.grants import SqliteGrants
from agent_md.stores.sqlite.initial_messages import SqliteInitialMessages
from agent_md.stores.sqlite.journal import SqliteJournal
from agent_md.stores.sqlite.journal_queries import JournalQueries
from agent_md.stores.sqlite.mcp_lists import SqliteMcpLists
from agent_md.stores.sqlite.outbox import SqliteOutbox
from agent_md.stores.sqlite.refusals import add_refusal
from agent_md.stores.sqlite.retention import SqliteRetention
from agent_md.stores.sqlite.sessions import SqliteSessions
from agent_md.stores.sqlite.showings import SqliteShowings

__all__ = ["SqliteStore"]


class SqliteStore(FamilyQueries, JournalQueries, EventQueries):
    """`agent_md.ports.Store` on SQLite."""

    def __init__(self, path: Path | None, *, workers: Workers, clock: Clock = time.time, frozen: bool = False) -> None:
        """Opens or makes the database at `path`; None = an empty one in memory. Raises as Database does."""
        self._db = Database(path, frozen=frozen)
        self._workers = workers
        self._clock = clock
        self._openings = SqliteInitialMessages(self._db)
        self._claims = Claims(self._db, workers, clock)
        self._answers = SqliteAnswers(self._db, self._claims, clock)
        self.sessions = SqliteSessions(self._db, clock)
        self.outbox = SqliteOutbox(self._db, workers, clock)
        self.firings = SqliteFirings(self._db, clock)
        self.grants = SqliteGrants(self._db, clock)
        self.mcp_lists = SqliteMcpLists(self._db, clock)
        self.showings = SqliteShowings(self._db, clock)
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
                expire_overdue(self._db, now)
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

    def claim(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        self.execution(execution_id)
        return self._claims.claim(execution_id, worker, waiting=False, suspects=suspects)

    def claim_to_cancel(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        self.execution(execution_id)
        return self._claims.claim(execution_id, worker, waiting=True, suspects=suspects)

    def abandoned(self) -> list[Execution]:
        return self._claims.abandoned()

    def settle_deaths(self) -> None:
        self._claims.settle_deaths()

    def request_cancel(self, execution_id: ExecutionId, by: str) -> Execution:
        with self._db.write():
            self.execution(execution_id)
            family.cancel(self._db, execution_id, by)
            return self.execution(execution_id)

    def journal(self, claim: Claim, *, keeps_family: bool = False) -> Journal:
        return SqliteJournal(self._db, claim, self._clock, self._workers, keeps_family=keeps_family)

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

    def requests(self, execution_id: ExecutionId, *, family: bool = False) -> list[Request]:
        return self._answers.of_family(execution_id) if family else self._answers.of_execution(execution_id)

    def open_requests(self, *, limit: int | None = None, offset: int = 0, by_deadline: bool = False) -> list[Request]:
        return self._answers.open_requests(limit, offset, by_deadline=by_deadline)

    def count_open_requests(self) -> int:
        return self._answers.count_open()

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

    # Workers

    def register_worker(self, worker: WorkerId, pid: int) -> None:
        self._claims.register(worker, pid)

    def worker_pid(self, worker: WorkerId) -> int | None:
        row = self._db.one("SELECT pid FROM workers WHERE id = ?", worker)
        return None if row is None else int(row[0])

    def forget_worker(self, worker: WorkerId) -> None:
        self._claims.forget(worker)

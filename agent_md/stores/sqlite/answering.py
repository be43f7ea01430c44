"""Requests, the answer that counts, and its retraction. `request_states` knows which are open."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent_md.errors import AnswerConflict, NothingToRetract, NotRetractable, UnknownRequest, UsageError
from agent_md.executions.answers import given_by_human, same_answer
from agent_md.executions.days import utc_text
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.request_occurrences import asked_again, retracted
from agent_md.executions.requests import Answer, Request, Retraction
from agent_md.executions.states import EventType, Outcome, Status
from agent_md.ports.clock import Clock
from agent_md.ports.store import AnswerReceipt, NewAnswer
from agent_md.stores.sqlite import grants, shared_statements
from agent_md.stores.sqlite.claims import Claims
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.deadlines import expire_overdue
from agent_md.stores.sqlite.rows import ACTIVE, EXECUTION, FAMILY, OPEN, REQUEST, dump, to_execution, to_request

__all__ = ["SqliteAnswers", "refuse_retracted", "use_answers"]


class SqliteAnswers:
    """The part of `agent_md.ports.Store` about requests and answers."""

    def __init__(self, db: Database, claims: Claims, clock: Clock) -> None:
        self._db = db
        self._claims = claims
        self._clock = clock

    def request(self, request_id: RequestId) -> Request:
        row = self._db.one(f"{REQUEST} WHERE r.id = ?", request_id)
        if row is None:
            raise UnknownRequest(f"there is no request {request_id}; `agentmd pending` lists the open ones")
        return to_request(row)

    def of_execution(self, execution_id: ExecutionId) -> list[Request]:
        return [to_request(r) for r in self._db.all(f"{REQUEST} WHERE r.execution_id = ? ORDER BY r.seq", execution_id)]

    def of_family(self, execution_id: ExecutionId) -> list[Request]:
        rows = self._db.all(
            f"{FAMILY.format(id='?')}{REQUEST} JOIN family ON family.id = r.execution_id ORDER BY r.seq", execution_id
        )
        return [to_request(row) for row in rows]

    def open_requests(self, limit: int | None, offset: int, *, by_deadline: bool = False) -> list[Request]:
        order = "r.expires_at IS NULL, r.expires_at, r.seq" if by_deadline else "r.seq"
        rows = self._db.all(
            f"{REQUEST} WHERE {ACTIVE} AND {OPEN} ORDER BY {order} LIMIT ? OFFSET ?",
            *(-1 if limit is None else limit, offset),
        )
        return [to_request(row) for row in rows]

    def count_open(self) -> int:
        (count,) = self._db.one(
            f"SELECT count(*) FROM request_states r JOIN executions x ON x.id = r.execution_id WHERE {ACTIVE} AND {OPEN}"
        )
        return int(count)

    def next_deadline(self) -> float | None:
        (earliest,) = self._db.one(
            f"SELECT min(r.expires_at) FROM request_states r JOIN executions x ON x.id = r.execution_id"
            f" WHERE {ACTIVE} AND {OPEN}"
        )
        return None if earliest is None else float(earliest)

    def settle_overdue(self) -> list[Answer]:
        now = self._clock()
        deadline = self.next_deadline()
        if (deadline is None or deadline > now) and not grants.has_expired(self._db, now):
            return []
        with self._db.write():
            grants.expire(self._db, now)
            return expire_overdue(self._db, now)

    def record(self, answers: Sequence[NewAnswer], by: str, claim_for: WorkerId | None) -> AnswerReceipt:
        with self._db.write():
            now = self._clock()
            grants.expire(self._db, now)
            expire_overdue(self._db, now, only=[answer.request_id for answer in answers])
            requests = [self.request(answer.request_id) for answer in answers]
            _refuse_several(requests)
            conflict = _first_conflict(requests, answers)
            if conflict is None:
                fresh = [new for new, request in zip(answers, requests, strict=True) if request.open]
                asking = {request.id: request.execution_id for request in requests}
                for new in fresh:
                    shared_statements.add_answer(self._db, asking[new.request_id], new, by, now)
                    shared_statements.wake(self._db, asking[new.request_id])
                claim = self._claim_if_queued(requests[0].execution_id, claim_for)
        if conflict is not None:  # the expiry that it may have lost to is stored by now
            raise conflict
        decided = tuple(request.answer or _answer(self.request(request.id)) for request in requests)
        return AnswerReceipt(decided, recorded=bool(fresh), claim=claim)

    def _claim_if_queued(self, execution_id: ExecutionId, worker: WorkerId | None) -> Claim | None:
        execution = self._execution(execution_id)
        if worker is None or execution.status is not Status.QUEUED:
            return None
        return self._claims.take(execution, worker)

    def _execution(self, execution_id: ExecutionId) -> Execution:
        return to_execution(self._db.one(f"{EXECUTION} WHERE x.id = ?", execution_id))

    def retract(self, request_id: RequestId, by: str) -> Retraction:
        with self._db.write():
            request = self.request(request_id)
            if request.retraction is not None:
                return request.retraction
            answer = _retractable(request)
            now = self._clock()
            again = asked_again(request, now)
            self._db.run(
                "INSERT INTO requests (id, execution_id, turn, idx, source, kind, message, digest, occurrence, body,"
                " created_at, expires_at) SELECT ?, execution_id, turn, idx, source, kind, message, digest, ?, body, ?,"
                " expires_at FROM requests WHERE id = ?",
                *(again.id, again.occurrence, now, request.id),
            )
            self._db.run(
                "INSERT INTO retractions (request_id, replaced_by, retracted_by, retracted_at) VALUES (?, ?, ?, ?)",
                *(request.id, again.id, by, now),
            )
            if answer.grant_id is not None:
                grants.expire(self._db, now)
                grants.revoke(self._db, answer.grant_id, by, now)
            data = {
                "request_id": request.id,
                "outcome": answer.outcome,
                "answered_by": answer.answered_by,
                "retracted_by": by,
                "replaced_by": again.id,
            }
            key = f"retraction:{request.id}"
            shared_statements.tell(
                self._db, request.execution_id, key, EventType.RETRACTED, f"{answer.outcome}, retracted", data, now
            )
            shared_statements.tell_request(self._db, request.execution_id, again, now)
            self._wait_again(request.execution_id)
            expire_overdue(self._db, now, only=[again.id])
            return Retraction(answer, by, now, again.id)

    def _wait_again(self, execution_id: ExecutionId) -> None:
        """A queued execution waits, if no answer that counts came, and no child ended, since it last did: it has nothing to
        go on with."""
        self._db.run(
            "UPDATE executions AS x SET status = ?1 WHERE id = ?2 AND status = ?3 AND EXISTS ("
            " SELECT 1 FROM events parked WHERE parked.execution_id = x.id AND parked.key = 'waiting:' || x.epoch"
            " AND NOT EXISTS (SELECT 1 FROM events given JOIN request_states r ON given.key = 'answer:' || r.id"
            "  WHERE given.execution_id = x.id AND r.execution_id = x.id AND given.seq > parked.seq"
            "  AND r.state <> 'retracted')"
            " AND NOT EXISTS (SELECT 1 FROM events over WHERE over.execution_id = x.id AND over.seq > parked.seq"
            "  AND over.type = ?4 AND json_extract(over.data, '$.parent_execution_id') = x.id))",
            *(Status.WAITING, execution_id, Status.QUEUED, EventType.CHILD_ENDED),
        )


def use_answers(db: Database, request_ids: Collection[RequestId], at: float) -> None:
    """A call acts on the answers to these requests, those left out that were retracted."""
    db.run(
        "UPDATE answers SET used_at = ? WHERE used_at IS NULL AND request_id IN (SELECT value FROM json_each(?))"
        " AND request_id NOT IN (SELECT request_id FROM retractions)",
        *(at, dump(list(request_ids))),
    )


def refuse_retracted(db: Database, request_ids: Collection[RequestId]) -> None:
    """Raises AnswerRetracted if the answer to one of them was retracted."""
    for request_id in request_ids:
        request = to_request(db.one(f"{REQUEST} WHERE r.id = ?", request_id))
        if request.retraction is not None:
            raise retracted(request, request.retraction)


def _refuse_several(requests: Sequence[Request]) -> None:
    if len({request.id for request in requests}) != len(requests):
        raise UsageError("a request is answered twice at once")
    if len({request.root for request in requests}) != 1:
        raise UsageError("answers are recorded for one execution, with those below it, at a time")


def _answer(request: Request) -> Answer:
    assert request.answer is not None
    return request.answer


def _first_conflict(requests: Sequence[Request], answers: Sequence[NewAnswer]) -> AnswerConflict | None:
    for request, new in zip(requests, answers, strict=True):
        if request.retraction is not None:
            return retracted(request, request.retraction)
        given = request.answer
        if given is not None and not same_answer(request, given, new.outcome, new.value):
            when = utc_text(given.answered_at)
            how = f"was {given.outcome} by {given.answered_by} at {when}"
            if given.outcome is Outcome.EXPIRED:
                how = f"expired at {when} (nobody answered in time)"
            return AnswerConflict(
                f"request {request.id} {how}; this answer was not taken",
                str(given.outcome),
                given.answered_by,
                given.answered_at,
                given.recorded_at,
            )
    return None


def _retractable(request: Request) -> Answer:
    """The answer to the request. Raises NothingToRetract and NotRetractable."""
    answer = request.answer
    if answer is None:
        raise NothingToRetract(f"request {request.id} is open: there is no answer to retract")
    how = f"{answer.outcome} by {answer.answered_by}"
    if not given_by_human(answer):
        raise NotRetractable(
            f"request {request.id} was {how}, and only the answer of a human can be retracted; nothing was changed"
        )
    if answer.used_at is not None:
        raise NotRetractable(
            f"the answer to request {request.id} ({how}) cannot be retracted any more: its call went on with it at "
            f"{utc_text(answer.used_at)}; nothing was changed"
        )
    return answer

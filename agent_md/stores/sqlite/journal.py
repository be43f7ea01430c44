"""The writes of one driver, each checked against the epoch of its claim."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agent_md.errors import CallClosed, CancelRequested, ClaimLost
from agent_md.executions.calls import Proposal
from agent_md.executions.execution import Claim, NewChild, Usage
from agent_md.executions.grants import GrantId
from agent_md.executions.ids import RequestId, WaitId
from agent_md.executions.positions import BETWEEN, Position
from agent_md.executions.requests import CallEffect, NewRequest
from agent_md.executions.spending import Budget, BudgetVerdict
from agent_md.executions.states import CallOutcome, CallState, Decision, EventType, Outcome, RequestSource, Status
from agent_md.ports.clock import Clock
from agent_md.ports.journal import ExecutionEnd
from agent_md.ports.store import NewAnswer
from agent_md.ports.workers import Workers
from agent_md.stores.sqlite import family, grants, ledger, shared_statements, spending
from agent_md.stores.sqlite.answering import refuse_retracted, use_answers
from agent_md.stores.sqlite.claims import add_attempt, place_in_flight
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import EXECUTION, OPEN, OUTPUT, dump, to_execution

__all__ = ["SqliteJournal"]

_CLOSED = "('finished', 'unknown')"


class SqliteJournal:
    """`agent_md.ports.Journal` on SQLite."""

    def __init__(self, db: Database, claim: Claim, clock: Clock, workers: Workers, *, keeps_family: bool) -> None:
        self._db = db
        self._family_worker = claim.worker if keeps_family else None
        self._workers = workers
        self._claim = claim
        self._clock = clock
        self._began = self._counted = workers.worked(claim.worker)
        self._process = os.getpid()
        self._budget: Budget | None = None
        """What limits the call for which money is held."""
        self._writing = threading.Lock()
        """Held for one write at a time: tools write their steps on threads of their own."""

    @property
    def claim(self) -> Claim:
        return self._claim

    def worked_ms(self) -> int:
        return self._workers.worked(self._claim.worker) - self._began

    @property
    def _where(self) -> tuple[int, str, int]:
        return self._claim.execution_id, self._claim.worker, self._claim.epoch

    @contextmanager
    def _fenced(self) -> Iterator[float]:
        """A write transaction of the claim's holder; gives the time of the write."""
        if os.getpid() != self._process:
            raise ClaimLost(
                f"execution {self._claim.execution_id} is driven by the process that this one was forked from"
            )
        with self._writing:
            worked = self._workers.worked(self._claim.worker)
            with self._db.write():
                held = self._db.run(
                    "UPDATE executions SET work_ms = work_ms + ?, work_mark = ?"
                    " WHERE id = ? AND worker = ? AND epoch = ? AND status = ?",
                    *(worked - self._counted, worked, *self._where, Status.RUNNING),
                )
                if held != 1:
                    raise ClaimLost(f"execution {self._claim.execution_id} is driven by another process now")
                yield self._clock()
            self._counted = worked

    def _event(self, key: str, type: EventType, message: str, data: dict[str, Any], at: float) -> bool:
        new = shared_statements.add_event(self._db, self._claim.execution_id, key, type, message, data, at)
        if new:
            self._progress()
        return new

    def _progress(self) -> None:
        """What was in flight is over, or has a row of its own."""
        self._db.run(
            "UPDATE executions SET begun = CASE status WHEN 'running' THEN ? END, suspect = 0 WHERE id = ?",
            *(BETWEEN, self._claim.execution_id),
        )
        self._db.run("DELETE FROM attempts WHERE execution_id = ?", self._claim.execution_id)

    def _open(self, request: NewRequest, at: float) -> None:
        if shared_statements.open_request(self._db, self._claim.execution_id, request, at):
            self._progress()

    def begin(self, place: str) -> None:
        with self._fenced():
            self._db.run("UPDATE executions SET begun = ? WHERE id = ?", place, self._claim.execution_id)

    def count_attempt(self) -> tuple[str, int]:
        with self._fenced():
            place = place_in_flight(self._db, self._claim.execution_id, self._claim.epoch) or BETWEEN
            return place, add_attempt(self._db, self._claim.execution_id, place)

    def record_model_step(
        self,
        turn: int,
        message: dict[str, Any],
        text: str,
        usage: Usage,
        proposals: Sequence[Proposal],
        *,
        cut: str | None = None,
    ) -> tuple[str, ...]:
        with self._fenced() as now:
            spent = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost_usd": usage.cost_usd,
            }
            data = {"message": message, "usage": spent, **_if_cut(cut)}
            if not self._event(f"ai:{turn}", EventType.AI, text, data, now):
                return ()
            ledger.record(self._db, self._claim.execution_id, turn, usage, now)
            spending.free(self._db, self._claim.execution_id)
            for proposal in proposals:
                self._propose(proposal, now)
            budget, self._budget = self._budget, None
            return () if budget is None else spending.marks_passed(self._db, self._claim, budget, usage.cost_usd)

    def reserve(self, budget: Budget) -> BudgetVerdict:
        with self._fenced():
            self._budget = budget
            return spending.reserve(self._db, self._claim, budget, self._workers)

    def _propose(self, proposal: Proposal, now: float) -> None:
        grant = grants.first_usable(self._db, self._claim.execution_id, proposal.grants, now)
        decision = proposal.decision if grant is None else Decision.RUN
        self._db.run(
            "INSERT INTO calls (execution_id, turn, idx, call_id, tool, decision, reason, state, epoch, grant_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(self._claim.execution_id, proposal.position.turn, proposal.position.index, proposal.call_id),
            *(proposal.tool, decision, proposal.reason, CallState.PROPOSED, self._claim.epoch, grant and grant.id),
        )
        data = {
            "call_id": proposal.call_id,
            "tool_name": proposal.tool,
            "args": proposal.args,
            "position": str(proposal.position),
            "decision": decision,
            **({} if grant is None else {"grant": {"id": grant.id, "rule": grant.rule, "given_by": grant.given_by}}),
        }
        shown = f"{proposal.tool} → {json.dumps(proposal.args, ensure_ascii=False)}"
        self._event(f"call:{proposal.position}", EventType.TOOL_CALL, shown, data, now)
        if proposal.request is not None and grant is None:
            self._open(proposal.request, now)

    def start_call(
        self,
        position: Position,
        args: dict[str, Any],
        effect: CallEffect | None,
        *,
        answered: Collection[RequestId] = (),
        grant_id: GrantId | None = None,
    ) -> None:
        with self._fenced() as now:
            self._refuse_if_cancelled()
            refuse_retracted(self._db, answered)
            if grant_id is not None:
                grants.refuse_if_revoked(self._db, grant_id)
            proposed = self._data_of(f"call:{position}")["args"]
            self._move(position, CallState.STARTED)
            self._use_all_answers(position, now)
            self._db.run(
                "UPDATE calls SET edited_args = ?, effect_before = ?, effect_after = ?"
                f" WHERE execution_id = ? AND turn = ? AND idx = ? AND state NOT IN {_CLOSED}",
                *(None if args == proposed else dump(args), effect and effect.before, effect and effect.after),
                *(self._claim.execution_id, position.turn, position.index),
            )

    def put_back(self, position: Position, state: CallState) -> None:
        with self._fenced():
            self._move(position, state)

    def pause_call(
        self,
        position: Position,
        requests: Sequence[NewRequest],
        *,
        child: NewChild | None = None,
        answered: Collection[RequestId] = (),
    ) -> None:
        with self._fenced() as now:
            refuse_retracted(self._db, answered)
            if child is not None:
                self._refuse_if_cancelled()
            if child is not None or any(request.source is RequestSource.TOOL for request in requests):
                self._check_started(position)
            if self._move(position, CallState.PAUSED):
                use_answers(self._db, answered, now)
                for request in requests:
                    self._open(request, now)
                if child is not None:
                    family.start_child(self._db, self._claim.execution_id, position, child, self._family_worker, now)
                    self._progress()

    def finish_call(
        self,
        position: Position,
        state: CallState,
        outcome: CallOutcome,
        text: str,
        message: dict[str, Any],
        *,
        answered: Collection[RequestId] = (),
    ) -> None:
        with self._fenced() as now:
            refuse_retracted(self._db, answered)
            self._close_call(position, state, outcome, text, message, now)

    def _refuse_if_cancelled(self) -> None:
        (by,) = self._db.one("SELECT cancelled_by FROM executions WHERE id = ?", self._claim.execution_id)
        if by is not None:
            raise CancelRequested(by)

    def _check_started(self, position: Position) -> None:
        row = self._db.one(
            "SELECT state, epoch FROM calls WHERE execution_id = ? AND turn = ? AND idx = ?",
            *(self._claim.execution_id, position.turn, position.index),
        )
        if row != (CallState.STARTED, self._claim.epoch):
            raise CallClosed(f"call {position} of execution {self._claim.execution_id} was ended meanwhile")

    def _move(self, position: Position, state: CallState) -> bool:
        changed = self._db.run(
            "UPDATE calls SET state = ?, epoch = ?"
            f" WHERE execution_id = ? AND turn = ? AND idx = ? AND state NOT IN {_CLOSED}",
            *(state, self._claim.epoch, self._claim.execution_id, position.turn, position.index),
        )
        return changed == 1

    def _use_all_answers(self, position: Position, now: float) -> None:
        where = (self._claim.execution_id, position.turn, position.index)
        rows = self._db.all("SELECT id FROM requests WHERE execution_id = ? AND turn = ? AND idx = ?", *where)
        use_answers(self._db, [row[0] for row in rows], now)

    def _close_call(
        self,
        position: Position,
        state: CallState,
        outcome: CallOutcome,
        text: str,
        message: dict[str, Any] | None,
        now: float,
    ) -> None:
        call = self._db.one(
            "SELECT call_id, tool FROM calls"
            f" WHERE execution_id = ? AND turn = ? AND idx = ? AND state NOT IN {_CLOSED}",
            *(self._claim.execution_id, position.turn, position.index),
        )
        if call is None:
            return
        self._move(position, state)
        self._use_all_answers(position, now)
        self._db.run(
            "UPDATE calls SET outcome = ? WHERE execution_id = ? AND turn = ? AND idx = ?",
            *(outcome, self._claim.execution_id, position.turn, position.index),
        )
        call_id, tool = call
        content = {
            "content": text,
            "tool_call_id": call_id,
            "name": tool,
            "id": f"{self._claim.execution_id}:tool:{position}",
            "status": "error",
        }
        data = {
            "call_id": call_id,
            "tool_name": tool,
            "position": str(position),
            "outcome": outcome,
            "message": message or {"type": "tool", "data": content},
        }
        self._event(f"result:{position}", EventType.TOOL_RESULT, text, data, now)

    def _data_of(self, key: str) -> Any:
        row = self._db.one("SELECT data FROM events WHERE execution_id = ? AND key = ?", self._claim.execution_id, key)
        return json.loads(row[0])

    def begin_step(self, position: Position, number: int, function: str) -> None:
        with self._fenced():
            self._refuse_if_cancelled()
            self._check_started(position)
            self._db.run(
                "INSERT OR IGNORE INTO steps (execution_id, turn, idx, number, function, state)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                *(self._claim.execution_id, position.turn, position.index, number, function, CallState.STARTED),
            )

    def end_step(self, position: Position, number: int, result: Any, error: dict[str, Any] | None) -> None:
        with self._fenced():
            ended = self._db.run(
                "UPDATE steps SET state = ?, result = ?, error = ?"
                " WHERE execution_id = ? AND turn = ? AND idx = ? AND number = ? AND state = ?",
                *(CallState.FINISHED, dump(result), None if error is None else dump(error)),
                *(self._claim.execution_id, position.turn, position.index, number, CallState.STARTED),
            )
            if ended:
                self._progress()

    def park(self, waits: Collection[frozenset[WaitId]]) -> bool:
        with self._fenced() as now:
            still_open = {wait for wait, open in family.waits(self._db, self._claim.execution_id).items() if open}
            if any(not (wait & still_open) for wait in waits):
                return False
            self._leave(Status.WAITING)
            self._progress()
            family.tell_waiting(self._db, self._claim, now)
        return True

    def _open_ids(self) -> list[RequestId]:
        rows = self._db.all(
            f"SELECT r.id FROM request_states r WHERE r.execution_id = ? AND {OPEN} ORDER BY r.seq",
            self._claim.execution_id,
        )
        return [RequestId(row[0]) for row in rows]

    def _leave(self, status: Status) -> None:
        spending.free(self._db, self._claim.execution_id)
        self._db.run(
            "UPDATE executions SET status = ?, worker = NULL, begun = NULL, work_mark = NULL WHERE id = ?",
            *(status, self._claim.execution_id),
        )

    def release(self) -> None:
        with self._fenced():
            self._leave(Status.QUEUED)

    def _keep_output(self, output: str) -> None:
        execution_id = self._claim.execution_id
        if self._db.one(f"SELECT {OUTPUT} FROM executions x WHERE x.id = ?", execution_id)[0] != output:
            self._db.run("UPDATE executions SET output = ? WHERE id = ?", output, execution_id)

    def finish(self, ending: ExecutionEnd) -> None:
        with self._fenced() as now:
            for position, state, outcome, text in ending.closings:
                self._close_call(position, state, outcome, text, None, now)
            for request_id in self._open_ids():
                cancelled = NewAnswer(request_id, Outcome.CANCELLED, None)
                shared_statements.add_answer(
                    self._db, self._claim.execution_id, cancelled, ending.ended_by or "policy", now
                )
            family.cancel(self._db, self._claim.execution_id, ending.ended_by or "policy", itself=False)
            self._leave(ending.status)
            self._db.run(
                "UPDATE executions SET finished_at = max(?, coalesce(started_at, created_at)), error = ?, cut = ? WHERE id = ?",
                *(now, ending.error, ending.cut, self._claim.execution_id),
            )
            if ending.output is not None:
                self._keep_output(ending.output)
                self._event("final", EventType.FINAL_ANSWER, "", _if_cut(ending.cut), now)  # its text is the output
            ended = to_execution(self._db.one(f"{EXECUTION} WHERE x.id = ?", self._claim.execution_id))
            data = {
                "status": ending.status,
                "error": ending.error,
                "duration_ms": ended.work_ms,
                "total_tokens": ended.usage.total_tokens,
                "cost_usd": ended.usage.cost_usd,
                "ended_by": ending.ended_by,
                "unknown_calls": ended.unknown_calls,
                **_if_cut(ending.cut),
            }
            self._event("complete", EventType.COMPLETE, str(ending.status), data, now)
            self._db.run(
                "UPDATE executions SET end_seq = (SELECT seq FROM events WHERE execution_id = ?1 AND key = 'complete')"
                " WHERE id = ?1",
                self._claim.execution_id,
            )
            family.end_child(self._db, ended, self._family_worker, now)


def _if_cut(reason: str | None) -> dict[str, Any]:
    return {} if reason is None else {"cut": reason}

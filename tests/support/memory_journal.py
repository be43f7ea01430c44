"""The fenced writes of one driver on the in-memory store."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from agent_md.errors import CallClosed, CancelRequested, ClaimLost
from agent_md.executions.calls import Call, Proposal, StepRecord
from agent_md.executions.execution import Claim, Execution, NewChild, Usage
from agent_md.executions.grants import Grant, GrantId
from agent_md.executions.ids import ExecutionId, RequestId, WaitId
from agent_md.executions.positions import BETWEEN, Position
from agent_md.executions.requests import CallEffect, NewRequest
from agent_md.executions.spending import Budget, BudgetVerdict
from agent_md.executions.states import CallOutcome, CallState, Decision, EventType, Outcome, RequestSource, Status
from agent_md.ports.journal import ExecutionEnd
from agent_md.ports.workers import Workers
from tests.support.memory_grants import MemoryGrants
from tests.support.memory_ledger import MemoryLedger
from tests.support.memory_state import MemoryState, as_json

__all__ = ["MemoryJournal"]


class MemoryJournal:
    """The `Journal` port."""

    def __init__(
        self, state: MemoryState, grants: MemoryGrants, claim: Claim, workers: Workers, *, keeps_family: bool
    ) -> None:
        self._family_worker = claim.worker if keeps_family else None
        self._grants = grants
        self._state = state
        self._workers = workers
        self._claim = claim
        self._began = self._counted = workers.worked(claim.worker)
        self._process = os.getpid()
        self._ledger = MemoryLedger(state)
        self._budget: Budget | None = None

    @property
    def claim(self) -> Claim:
        return self._claim

    def worked_ms(self) -> int:
        return self._workers.worked(self._claim.worker) - self._began

    def begin(self, place: str) -> None:
        with self._write():
            self._state.begun[self._id] = place

    def count_attempt(self) -> tuple[str, int]:
        with self._write():
            place = self._state.place(self._id) or BETWEEN
            return place, self._state.count_attempt(self._id, place)

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
        with self._write() as execution:
            if (self._id, turn) in self._state.model_steps:
                return ()
            stored = as_json(message)
            self._state.model_steps[self._id, turn] = stored
            self._state.holds.pop(self._id, None)
            self._ledger.record(self._id, turn, usage)
            self._state.change(self._id, usage=_sum(execution.usage, usage))
            spent = {
                "input_tokens": usage.input_tokens,
                "output_tokens": usage.output_tokens,
                "cost_usd": usage.cost_usd,
            }
            data = {"message": stored, "usage": spent} | ({} if cut is None else {"cut": cut})
            self._state.add_event(self._id, f"ai:{turn}", EventType.AI, text, data)
            for proposal in proposals:
                grant = self._grants.first_usable(self._id, proposal.grants)
                self._propose(proposal, grant)
                if proposal.request is not None and grant is None:
                    self._state.open_request(execution, proposal.request)
            budget, self._budget = self._budget, None
            if budget is None:
                return ()
            return self._ledger.marks_passed(budget, self._state.agents_of(self._id), usage.cost_usd)

    def reserve(self, budget: Budget) -> BudgetVerdict:
        with self._write():
            self._budget = budget
            holds = self._state.holds
            for dead in [key for key, hold in holds.items() if not self._workers.alive(hold.worker)]:
                holds.pop(dead)
            return self._ledger.reserve(self._id, self._claim.worker, budget)

    def start_call(
        self,
        position: Position,
        args: dict[str, Any],
        effect: CallEffect | None,
        *,
        answered: Collection[RequestId] = (),
        grant_id: GrantId | None = None,
    ) -> None:
        with self._write() as execution:
            _refuse_if_cancelled(execution)
            self._state.refuse_retracted(answered)
            if grant_id is not None:
                self._grants.refuse_if_revoked(grant_id)
            if not self._state.call(self._id, position).state.closed:
                self._move(position, CallState.STARTED, args=as_json(args), effect=effect)
                self._state.use_all_answers(self._id, position)

    def put_back(self, position: Position, state: CallState) -> None:
        with self._write():
            if not self._state.call(self._id, position).state.closed:
                self._move(position, state)

    def pause_call(
        self,
        position: Position,
        requests: Sequence[NewRequest],
        *,
        child: NewChild | None = None,
        answered: Collection[RequestId] = (),
    ) -> None:
        with self._write() as execution:
            self._state.refuse_retracted(answered)
            if child is not None:
                _refuse_if_cancelled(execution)
            if child is not None or any(request.source is RequestSource.TOOL for request in requests):
                self._check_started(position)
            if self._state.call(self._id, position).state.closed:
                return
            self._move(position, CallState.PAUSED)
            self._state.use_answers(answered)
            for request in requests:
                self._state.open_request(execution, request)
            if child is not None:
                self._start_child(position, child)

    def _start_child(self, position: Position, child: NewChild) -> None:
        state = self._state
        child_id = state.insert(child.new, child.spec, child.spec_digest, as_json(list(child.new.seed)), position)
        data = self._told(self._id, position, child_id)
        text = f"{child.new.agent} (execution {child_id})"
        state.tell(self._id, f"child_started:{child_id}", EventType.CHILD_STARTED, text, data)
        if self._family_worker is not None:
            state.take(child_id, self._family_worker)

    def _end_child(self) -> None:
        state, ended = self._state, self._state.executions[self._id]
        if ended.parent_id is None:
            return
        data = self._told(ended.parent_id, ended.position, ended.id) | {"status": ended.status, "error": ended.error}
        text = f"{ended.agent} (execution {ended.id}): {ended.status}"
        state.tell(ended.parent_id, f"child_ended:{ended.id}", EventType.CHILD_ENDED, text, data)
        if state.executions[ended.parent_id].parked:
            if self._family_worker is None:
                state.leave(ended.parent_id, Status.QUEUED)
            else:
                state.take(ended.parent_id, self._family_worker)

    def _told(self, parent_id: ExecutionId, position: Position | None, child_id: ExecutionId) -> dict[str, Any]:
        return {
            "parent_execution_id": parent_id,
            "position": None if position is None else str(position),
            "child_execution_id": child_id,
            "agent_name": self._state.executions[child_id].agent,
        }

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
        with self._write():
            self._state.refuse_retracted(answered)
            self._close(position, state, outcome, text, message)

    def _check_started(self, position: Position) -> None:
        found = self._state.call(self._id, position)
        if (found.state, found.epoch) != (CallState.STARTED, self._claim.epoch):
            raise CallClosed(f"call {position} was ended meanwhile")

    def begin_step(self, position: Position, number: int, function: str) -> None:
        with self._write() as execution:
            _refuse_if_cancelled(execution)
            self._check_started(position)
            steps = self._state.steps.setdefault((self._id, position), {})
            steps.setdefault(number, StepRecord(function, CallState.STARTED))

    def end_step(self, position: Position, number: int, result: Any, error: dict[str, Any] | None) -> None:
        with self._write():
            steps = self._state.steps[self._id, position]
            begun = steps[number]
            if not begun.state.closed:
                steps[number] = StepRecord(begun.function, CallState.FINISHED, as_json(result), as_json(error))
                self._state.progress(self._id)

    def park(self, waits: Collection[frozenset[WaitId]]) -> bool:
        with self._state.lock:
            self._check()
            state = self._state
            still_open = {wait for wait, open in state.waits(self._id).items() if open}
            if any(not (wait & still_open) for wait in waits):
                return False
            with self._write() as execution:
                state.holds.pop(self._id, None)
                state.leave(self._id, Status.WAITING)
                state.progress(self._id)
                state.tell_waiting(self._id, f"waiting:{self._claim.epoch}")
                root = state.executions[execution.root]
                if root.id != self._id and root.parked:
                    key = f"waiting:{root.epoch}:{self._id}:{self._claim.epoch}"
                    state.tell_waiting(root.id, key, again=False)
            return True

    def release(self) -> None:
        with self._write():
            self._state.leave(self._id, Status.QUEUED)

    def finish(self, ending: ExecutionEnd) -> None:
        with self._write() as execution:
            self._state.holds.pop(self._id, None)
            for position, state, outcome, text in ending.closings:
                self._close(position, state, outcome, text, self._closing_message(position, text))
            self._state.cancel(self._id, ending.ended_by or "policy", itself=False)
            for request in self._state.open_requests(self._id):
                self._state.decide(request, Outcome.CANCELLED, None, ending.ended_by or "policy")
            cut = {} if ending.cut is None else {"cut": ending.cut}
            if ending.output is not None:
                self._event("final", EventType.FINAL_ANSWER, ending.output, cut)
            ended = {
                "status": ending.status,
                "error": ending.error,
                "duration_ms": execution.work_ms,
                "total_tokens": execution.usage.total_tokens,
                "cost_usd": execution.usage.cost_usd,
                "ended_by": ending.ended_by,
                "unknown_calls": self._state.execution(self._id).unknown_calls,
            }
            self._event("complete", EventType.COMPLETE, ending.status.value, ended | cut)
            at = max(self._state.now(), execution.started_at or execution.created_at)
            outcome = {"error": ending.error, "output": ending.output, "finished_at": at}
            self._state.leave(self._id, ending.status, cut=ending.cut, **outcome)
            self._end_child()

    @property
    def _id(self) -> ExecutionId:
        return self._claim.execution_id

    def _check(self) -> Execution:
        if os.getpid() != self._process:
            raise ClaimLost(f"execution {self._id} is driven by another process")
        execution = self._state.execution(self._id)
        if execution.epoch != self._claim.epoch or execution.status is not Status.RUNNING:
            raise ClaimLost(f"execution {self._id} is no longer driven by worker {self._claim.worker}; stop driving it")
        return execution

    @contextmanager
    def _write(self) -> Iterator[Execution]:
        with self._state.lock:
            with self._state.transaction():
                execution = self._check()
                events_before = self._state.last_seq
                worked = self._workers.worked(self._claim.worker)
                self._state.marks[self._id] = worked
                yield self._state.change(self._id, work_ms=execution.work_ms + worked - self._counted)
                if self._state.last_seq != events_before:
                    self._state.progress(self._id)
                    if self._state.executions[self._id].status is not Status.RUNNING:
                        self._state.begun.pop(self._id, None)
            self._counted = worked

    def _event(self, key: str, kind: EventType, message: str, data: dict[str, Any]) -> None:
        self._state.add_event(self._id, key, kind, message, data)

    def _propose(self, proposal: Proposal, grant: Grant | None) -> None:
        args = as_json(proposal.args)
        decision = proposal.decision if grant is None else Decision.RUN
        self._state.calls[self._id, proposal.position] = Call(
            position=proposal.position,
            call_id=proposal.call_id,
            tool=proposal.tool,
            args=args,
            decision=decision,
            reason=proposal.reason,
            state=CallState.PROPOSED,
            epoch=self._claim.epoch,
            grant_id=None if grant is None else grant.id,
        )
        self._event(
            f"call:{proposal.position}",
            EventType.TOOL_CALL,
            f"{proposal.tool} → {json.dumps(args, ensure_ascii=False)}",
            {
                "call_id": proposal.call_id,
                "tool_name": proposal.tool,
                "args": args,
                "position": str(proposal.position),
                "decision": decision,
            }
            | ({} if grant is None else {"grant": {"id": grant.id, "rule": grant.rule, "given_by": grant.given_by}}),
        )

    def _move(self, position: Position, state: CallState, **fields: Any) -> None:
        self._state.change_call(self._id, position, state=state, epoch=self._claim.epoch, **fields)

    def _close(
        self, position: Position, state: CallState, outcome: CallOutcome, text: str, message: dict[str, Any]
    ) -> None:
        call = self._state.call(self._id, position)
        if call.state.closed:
            return
        self._move(position, state, outcome=outcome, result=text)
        self._state.use_all_answers(self._id, position)
        if state is CallState.UNKNOWN:
            unknown = self._state.execution(self._id).unknown_calls
            self._state.change(self._id, unknown_calls=unknown + 1)
        self._event(
            f"result:{position}",
            EventType.TOOL_RESULT,
            text,
            {
                "call_id": call.call_id,
                "tool_name": call.tool,
                "position": str(position),
                "outcome": outcome,
                "message": message,
            },
        )

    def _closing_message(self, position: Position, text: str) -> dict[str, Any]:
        call = self._state.call(self._id, position)
        return {
            "type": "tool",
            "data": {
                "content": text,
                "tool_call_id": call.call_id,
                "name": call.tool,
                "id": f"{self._id}:tool:{position}",
                "status": "error",
            },
        }


def _refuse_if_cancelled(execution: Execution) -> None:
    if execution.cancelled_by is not None:
        raise CancelRequested(execution.cancelled_by)


def _sum(one: Usage, other: Usage) -> Usage:
    unknown = one.cost_usd is None or other.cost_usd is None
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cost_usd=None if unknown else (one.cost_usd or 0.0) + (other.cost_usd or 0.0),
    )

"""The store in memory: a fake for tests of whoever uses the port, held to the same contract suite as the real one."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import replace
from math import inf
from typing import Any

from agent_md.errors import (
    AnswerConflict,
    BudgetSpent,
    ConversationWaiting,
    IdempotencyMismatch,
    NothingToRetract,
    NothingToSettle,
    NotRetractable,
    SettledOtherwise,
    UnknownCall,
    UsageError,
)
from agent_md.executions.answers import given_by_human, same_answer
from agent_md.executions.calls import Call, Settlement, StepRecord
from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.execution import Claim, Event, Execution, NewExecution, Spent, Usage
from agent_md.executions.firings import FiringId
from agent_md.executions.given_answers import AnswerFilter, GivenAnswer
from agent_md.executions.ids import ExecutionId, RequestId, WaitId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.request_occurrences import asked_again
from agent_md.executions.requests import Answer, Request, Retraction
from agent_md.executions.search import says
from agent_md.executions.spending import Refusal, RefusalKind, Scope, Verdict
from agent_md.executions.states import CallState, EventType, Status
from agent_md.ports.clock import Clock
from agent_md.ports.store import AnswerReceipt, Idempotency, NewAnswer
from agent_md.ports.workers import Workers
from tests.support.memory_firings import MemoryFirings
from tests.support.memory_grants import MemoryGrants
from tests.support.memory_journal import MemoryJournal
from tests.support.memory_ledger import MemoryLedger
from tests.support.memory_mcp_lists import MemoryMcpLists
from tests.support.memory_outbox import MemoryOutbox
from tests.support.memory_retention import MemoryRetention
from tests.support.memory_sessions import MemorySessions
from tests.support.memory_showings import MemoryShowings
from tests.support.memory_state import MemoryState, as_json

__all__ = ["MemoryStore"]


class MemoryStore:
    """The `Store` port on plain dicts under one lock; what it gives out are copies."""

    def __init__(self, *, workers: Workers, clock: Clock = time.time) -> None:
        self._state = MemoryState(clock)
        self._workers = workers
        self._ledger = MemoryLedger(self._state)
        self.sessions = MemorySessions(self._state)
        self.showings = MemoryShowings()
        self.outbox = MemoryOutbox(self._state, workers)
        self.firings = MemoryFirings(self._state)
        self.grants = MemoryGrants(self._state, self.sessions.holds)
        self.mcp_lists = MemoryMcpLists(self._state)
        self.retention = MemoryRetention(self._state, self.sessions)

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
            if firing is not None:
                raise
            kind = RefusalKind.BUDGET if isinstance(refused, BudgetSpent) else RefusalKind.PENDING
            with self._state.lock:
                number = max(self._state.refusals, default=0) + 1
                self._state.refusals[number] = Refusal(
                    *(number, new.agent, new.trigger, new.session_id, kind, str(refused), self._state.now())
                )
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
        state = self._state
        with state.transaction():
            if idempotency is not None and (first := self._created_with(new.agent, idempotency)) is not None:
                return deepcopy(first)
            if skip_if_waiting and new.parent_id is None:
                state.expire(state.open_requests())
                self._refuse_if_waiting(new)
            if new.budget is not None:
                judged = self._ledger.judge(new.budget, new.agent, before=None)
                if judged.verdict is Verdict.OVER:
                    raise BudgetSpent(f"{new.agent} was not started: {judged.reason}")
            self.sessions.enter(new)
            seed = self.sessions.first_messages(new)
            execution_id = state.insert(new, spec, spec_digest, as_json(seed))
            if idempotency is not None:
                state.keys[new.agent, idempotency.key] = (idempotency.digest, execution_id)
            if new.hook is not None:
                state.hooks[execution_id] = new.hook
            if firing is not None:
                self.firings.start(firing, execution_id)
            if worker is not None:
                state.take(execution_id, worker)
            return deepcopy(state.executions[execution_id])

    def execution(self, execution_id: ExecutionId) -> Execution:
        with self._state.lock:
            return deepcopy(self._state.told(self._state.execution(execution_id)))

    def family(self, execution_id: ExecutionId) -> list[Execution]:
        with self._state.lock:
            self._state.execution(execution_id)
            return deepcopy(self._state.family(execution_id))

    def line(self, execution_id: ExecutionId) -> list[Execution]:
        execution = self.execution(execution_id)
        return [*([] if execution.parent_id is None else self.line(execution.parent_id)), execution]

    def child(self, execution_id: ExecutionId, position: Position) -> Execution | None:
        with self._state.lock:
            found = [
                x for x in self._state.executions.values() if (x.parent_id, x.position) == (execution_id, position)
            ]
            return deepcopy(self._state.told(found[0])) if found else None

    def spent_by(self, execution_id: ExecutionId) -> Spent:
        with self._state.lock:
            family = self.family(execution_id)
            costs = [x.usage.cost_usd for x in family]
            usage = Usage(
                sum(x.usage.input_tokens for x in family),
                sum(x.usage.output_tokens for x in family),
                None if None in costs else sum(cost or 0.0 for cost in costs),
            )
            calls = sum(len(self.calls(x.id)) for x in family)
            return Spent(usage, calls, sum(x.work_ms for x in family))

    def waits(self, execution_id: ExecutionId) -> dict[WaitId, bool]:
        with self._state.lock:
            return self._state.waits(execution_id)

    def executions(
        self,
        *,
        ids: Collection[ExecutionId] | None = None,
        statuses: Collection[Status] = (),
        agent: str | Collection[str] | None = None,
        session_id: str | None = None,
        unknown: bool | None = None,
        since: float | None = None,
        containing: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Execution]:
        agents = (agent,) if isinstance(agent, str) else agent
        with self._state.lock:
            found = [
                execution
                for execution in map(self._state.told, reversed(self._state.executions.values()))
                if (ids is None or execution.id in ids)
                and (not statuses or execution.status in statuses)
                and (agents is None or execution.agent in agents)
                and session_id in (None, execution.session_id)
                and unknown in (None, execution.unknown_calls > 0)
                and (since is None or execution.created_at >= since)
                and (
                    containing is None
                    or any(says(e.type, e.message, e.data, containing) for e in self.events(execution.id))
                )
            ]
            return deepcopy(_page(found, limit, offset))

    def agent_names(self) -> list[str]:
        with self._state.lock:
            return sorted({execution.agent for execution in self._state.executions.values()})

    def count(self, statuses: Collection[Status]) -> int:
        with self._state.lock:
            return sum(self._state.told(execution).status in statuses for execution in self._state.executions.values())

    def spent(self, since: float, agent: str | None = None) -> float | None:
        with self._state.lock:
            return self._ledger.spent(Scope.WORKSPACE if agent is None else Scope.AGENT, agent or "", since)

    def costs(self, by: CostBy, *, agents: Collection[str] | None = None, since: float | None = None) -> list[Cost]:
        with self._state.lock:
            return self._ledger.costs(by, agents, since or 0.0)

    def refusals(
        self,
        *,
        agents: Collection[str] | None = None,
        session_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Refusal]:
        with self._state.lock:
            found = [
                refusal
                for refusal in reversed(self._state.refusals.values())
                if (agents is None or refusal.agent in agents) and session_id in (None, refusal.session_id)
            ]
            return _page(found, limit, offset)

    def seed(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        with self._state.lock:
            self._state.execution(execution_id)
            return deepcopy(self._state.seeds[execution_id])

    def in_thread(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        return []

    def said(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        with self._state.lock:
            self._state.execution(execution_id)
            said = self.sessions.messages_of(execution_id)
            return deepcopy([message for message in said if message["type"] != "human"])

    def spec(self, execution_id: ExecutionId) -> str:
        with self._state.lock:
            self._state.execution(execution_id)
            return self._state.specs[execution_id]

    def claim(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        return self._claim(execution_id, worker, suspects=suspects, waiting=False)

    def claim_to_cancel(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        return self._claim(execution_id, worker, suspects=suspects, waiting=True)

    def _claim(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool, waiting: bool) -> Claim | None:
        with self._state.lock:
            self._state.execution(execution_id)
            self.settle_deaths()
            execution = self._state.execution(execution_id)
            free = (waiting and execution.status is Status.WAITING) or self._free(execution)
            return self._state.take(execution_id, worker) if free and (suspects or not execution.suspect) else None

    def settle_deaths(self) -> None:
        with self._state.lock:
            self._state.settle_deaths(self._workers)

    def abandoned(self) -> list[Execution]:
        with self._state.lock:
            return deepcopy([execution for execution in self._state.executions.values() if self._free(execution)])

    def request_cancel(self, execution_id: ExecutionId, by: str) -> Execution:
        with self._state.lock:
            self._state.execution(execution_id)
            self._state.cancel(execution_id, by)
            return self.execution(execution_id)

    def journal(self, claim: Claim, *, keeps_family: bool = False) -> MemoryJournal:
        return MemoryJournal(self._state, self.grants, claim, self._workers, keeps_family=keeps_family)

    # What the journal holds

    def model_step(self, execution_id: ExecutionId, turn: int) -> dict[str, Any] | None:
        with self._state.lock:
            return deepcopy(self._state.model_steps.get((execution_id, turn)))

    def call(self, execution_id: ExecutionId, position: Position) -> Call | None:
        with self._state.lock:
            return deepcopy(self._state.calls.get((execution_id, position)))

    def calls(self, execution_id: ExecutionId, *, turn: int | None = None) -> list[Call]:
        with self._state.lock:
            calls = [
                call
                for (owner, position), call in self._state.calls.items()
                if owner == execution_id and turn in (None, position.turn)
            ]
            return deepcopy(sorted(calls, key=lambda call: call.position))

    def steps(self, execution_id: ExecutionId, position: Position) -> dict[int, StepRecord]:
        with self._state.lock:
            return deepcopy(self._state.steps.get((execution_id, position), {}))

    def settle_call(
        self, execution_id: ExecutionId, position: Position, *, ran: bool, note: str | None, by: str
    ) -> Settlement:
        state = self._state
        with state.transaction():
            execution = state.execution(execution_id)
            call = state.calls.get((execution_id, position))
            if call is None:
                raise UnknownCall(f"execution {execution_id} has no call {position}")
            if call.state is not CallState.UNKNOWN:
                raise NothingToSettle(f"call {position} is known to be {call.state}")
            first = call.settlement
            if first is None:
                first = Settlement(ran, note, by, state.now())
                state.change_call(execution_id, position, settlement=first)
                state.change(execution_id, unknown_calls=execution.unknown_calls - 1)
            elif first.ran != ran or note not in (None, first.note):
                text = f"{position} was settled as {first.ran} by {first.settled_by} before"
                raise SettledOtherwise(text, first.ran, first.settled_by, first.settled_at)
            return first

    # Requests and answers

    def request(self, request_id: RequestId) -> Request:
        with self._state.lock:
            return deepcopy(self._state.request(request_id))

    def requests(self, execution_id: ExecutionId, *, family: bool = False) -> list[Request]:
        with self._state.lock:
            owners = {x.id for x in self._state.family(execution_id)} if family else {execution_id}
            return deepcopy([r for r in self._state.requests.values() if r.execution_id in owners])

    def open_requests(self, *, limit: int | None = None, offset: int = 0, by_deadline: bool = False) -> list[Request]:
        with self._state.lock:
            found = self._state.open_requests()
            if by_deadline:
                found.sort(key=lambda request: inf if request.expires_at is None else request.expires_at)
            return deepcopy(_page(found, limit, offset))

    def count_open_requests(self) -> int:
        with self._state.lock:
            return len(self._state.open_requests())

    def given_answers(self, wanted: AnswerFilter, *, limit: int | None = None) -> list[GivenAnswer]:
        with self._state.lock:
            found = [*map(GivenAnswer.of, self._state.requests.values()), *self._state.removed_answers]
            taken = [given for given in found if given is not None and wanted.takes(given)]
            taken.sort(key=lambda given: (given.answer.answered_at, given.execution_id), reverse=True)
            return deepcopy(taken[:limit])

    def next_deadline(self) -> float | None:
        with self._state.lock:
            deadlines = [r.expires_at for r in self._state.open_requests() if r.expires_at is not None]
            return min(deadlines, default=None)

    def record_answers(
        self, answers: Sequence[NewAnswer], *, by: str, claim_for: WorkerId | None = None
    ) -> AnswerReceipt:
        state = self._state
        with state.lock:
            named = [state.request(answer.request_id) for answer in answers]
            roots = {request.root for request in named}
            if len(roots) != 1:
                raise UsageError(f"the answers are for {len(roots)} executions; record those of one at a time")
            if len({request.id for request in named}) != len(named):
                raise UsageError("a request is answered twice at once; give one answer")
            state.expire(named)
            with state.transaction():
                fresh = self._undecided(answers)
                self.grants.expire()
                for answer in fresh:
                    request = state.request(answer.request_id)
                    asking = request.execution_id
                    grant_id = None if answer.grant is None else self.grants.give(asking, answer.grant, by)
                    state.decide(request, answer.outcome, answer.value, by, answer.digest, grant_id=grant_id)
                    state.wake(asking)
                claim = self._take_queued(named[0].execution_id, claim_for)
            recorded = tuple(state.request(answer.request_id).answer for answer in answers)
            return deepcopy(AnswerReceipt(tuple(a for a in recorded if a is not None), bool(fresh), claim))

    def retract(self, request_id: RequestId, *, by: str) -> Retraction:
        state = self._state
        with state.transaction():
            request = state.request(request_id)
            if request.retraction is not None:
                return deepcopy(request.retraction)
            answer = request.answer
            if answer is None:
                raise NothingToRetract(f"request {request_id} is open")
            if not given_by_human(answer) or answer.used_at is not None:
                raise NotRetractable(f"the answer of {answer.answered_by} to {request_id} is final")
            again = asked_again(request, state.now())
            retraction = Retraction(answer, by, state.now(), again.id)
            state.requests[request_id] = replace(request, answer=None, retraction=retraction)
            state.requests[again.id] = again
            if answer.grant_id is not None:
                self.grants.revoke(answer.grant_id, by=by)
            data = {
                "request_id": request_id,
                "outcome": answer.outcome,
                "answered_by": answer.answered_by,
                "retracted_by": by,
                "replaced_by": again.id,
            }
            event = (f"retraction:{request_id}", EventType.RETRACTED, f"{answer.outcome}, retracted", data)
            state.tell(request.execution_id, *event)
            state.tell_request(request.execution_id, again)
            self._wait_again(state.execution(request.execution_id))
            state.expire([again])
            return deepcopy(retraction)

    def _wait_again(self, execution: Execution) -> None:
        events = self._state.events[execution.id]
        parked = events.get(f"waiting:{execution.epoch}")
        if execution.status is not Status.QUEUED or parked is None:
            return
        since = [
            e
            for e in events.values()
            if e.type is EventType.RESUMED and e.seq > parked.seq and "child_execution_id" not in e.data
        ]
        ended = [
            e
            for e in events.values()
            if e.type is EventType.CHILD_ENDED and e.seq > parked.seq and e.data["parent_execution_id"] == execution.id
        ]
        if not ended and all(self._state.request(e.data["request_id"]).retraction is not None for e in since):
            self._state.change(execution.id, status=Status.WAITING, parked=True)

    def settle_overdue(self) -> list[Answer]:
        with self._state.lock:
            self.grants.expire()
            return deepcopy(self._state.expire(self._state.open_requests()))

    # Events

    def all_events(self, types: Collection[EventType], *, after: int = 0, limit: int | None = None) -> list[Event]:
        with self._state.lock:
            found = [event for event in self._all_events() if event.type in types and event.seq > after]
            return deepcopy(_page(sorted(found, key=lambda event: event.seq), limit, 0))

    def has_event(self, seq: int, execution_id: ExecutionId | None = None) -> bool:
        with self._state.lock:
            return any(event.seq == seq and execution_id in (None, event.execution_id) for event in self._all_events())

    def last_event(self) -> int:
        with self._state.lock:
            return self._state.last_seq

    def touched(self, after: int) -> tuple[int, frozenset[ExecutionId]]:
        with self._state.lock:
            found = frozenset(event.execution_id for event in self._all_events() if event.seq > after)
            return self._state.last_seq, found

    def events(self, execution_id: ExecutionId, *, after: int = 0, limit: int | None = None) -> list[Event]:
        with self._state.lock:
            events = [event for event in self._state.events.get(execution_id, {}).values() if event.seq > after]
            return deepcopy(_page(events, limit, 0))

    def version(self) -> int:
        with self._state.lock:
            return self._state.version

    # Workers

    def register_worker(self, worker: WorkerId, pid: int) -> None:
        with self._state.lock:
            driving = {x.worker for x in self._state.executions.values() if x.status is Status.RUNNING}
            for dead in self._workers.dead():
                if dead not in driving:
                    self._workers.forget(dead)
            self._state.workers[worker] = pid

    def worker_pid(self, worker: WorkerId) -> int | None:
        with self._state.lock:
            return self._state.workers.get(worker)

    def forget_worker(self, worker: WorkerId) -> None:
        with self._state.lock:
            self._state.workers.pop(worker, None)

    def close(self) -> None:
        pass

    def _all_events(self) -> list[Event]:
        return [event for events in self._state.events.values() for event in events.values()]

    def _created_with(self, agent: str, idempotency: Idempotency) -> Execution | None:
        if (agent, idempotency.key) not in self._state.keys:
            return None
        digest, execution_id = self._state.keys[agent, idempotency.key]
        if digest != idempotency.digest:
            raise IdempotencyMismatch(f"the key {idempotency.key} was used for execution {execution_id} before")
        if execution_id in self._state.tombstones:
            raise IdempotencyMismatch(f"execution {execution_id}, made with the key {idempotency.key}, was removed")
        return self._state.executions[execution_id]

    def _free(self, execution: Execution) -> bool:
        if execution.status is Status.QUEUED:
            return True
        if execution.status is Status.WAITING:
            return execution.cancelled_by is not None
        held = execution.worker is not None and self._workers.alive(execution.worker)
        return execution.status is Status.RUNNING and not held

    def _refuse_if_waiting(self, new: NewExecution) -> None:
        owners = sorted({request.root.execution_id for request in self._state.open_requests()})
        conversation = (new.agent, new.session_id)
        floor = self.sessions.floor(*conversation)
        waiting = [
            owner
            for owner in owners
            if owner > floor
            and (self._state.executions[owner].agent, self._state.executions[owner].session_id) == conversation
        ]
        if waiting:
            ids = ", ".join(str(owner) for owner in waiting)
            message = f"{new.agent} was not started: execution {ids} waits for an answer; see: agentmd pending"
            raise ConversationWaiting(message, tuple(int(owner) for owner in waiting))

    def _undecided(self, answers: Sequence[NewAnswer]) -> list[NewAnswer]:
        fresh = []
        for answer in answers:
            request = self._state.request(answer.request_id)
            decided = request.answer
            self._state.refuse_retracted([request.id])
            if decided is None:
                fresh.append(answer)
            elif not same_answer(request, decided, answer.outcome, answer.value):
                raise AnswerConflict(
                    f"request {answer.request_id} was {decided.outcome} by {decided.answered_by} before",
                    decided.outcome,
                    decided.answered_by,
                    decided.answered_at,
                    decided.recorded_at,
                )
        return fresh

    def _take_queued(self, execution_id: ExecutionId, claim_for: WorkerId | None) -> Claim | None:
        queued = self._state.executions[execution_id].status is Status.QUEUED
        return self._state.take(execution_id, claim_for) if queued and claim_for is not None else None


def _page(found: list[Any], limit: int | None, offset: int) -> list[Any]:
    return found[offset:] if limit is None else found[offset : offset + limit]

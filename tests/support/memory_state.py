"""What the in-memory store keeps, and the changes that its store and its journal share.

Whoever changes anything does it inside `transaction`; nothing else here takes the lock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import RLock
from typing import Any

from agent_md.errors import StoreError, UnknownExecution, UnknownRequest
from agent_md.executions.calls import Call, StepRecord
from agent_md.executions.chat_messages import shown_text
from agent_md.executions.execution import Claim, Event, Execution, HookTarget, NewExecution
from agent_md.executions.firings import FileState, Firing, FiringId, Pause, TriggerRecord
from agent_md.executions.given_answers import GivenAnswer
from agent_md.executions.grants import Grant, GrantId
from agent_md.executions.ids import ExecutionId, RequestId, WaitId, WorkerId, child_wait
from agent_md.executions.positions import BETWEEN, Position
from agent_md.executions.request_occurrences import retracted
from agent_md.executions.requests import Answer, NewRequest, PathStep, Request, RequestContent
from agent_md.executions.spending import Refusal
from agent_md.executions.states import CallState, EventType, Outcome, Status, TriggerKind
from agent_md.ports.workers import Workers

__all__ = ["MemoryState", "as_json"]


def as_json(value: Any) -> Any:
    """The value as it comes back from storage: a copy made of JSON types only."""
    return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False))


class MemoryState:
    """The tables, as dicts. Insertion order is age."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lock = RLock()
        self.now = clock
        self.version = 0
        self.executions: dict[ExecutionId, Execution] = {}
        self.specs: dict[ExecutionId, str] = {}
        self.keys: dict[tuple[str, str], tuple[str, ExecutionId]] = {}
        self.seeds: dict[ExecutionId, list[dict[str, Any]]] = {}
        self.events: dict[ExecutionId, dict[str, Event]] = {}
        self.model_steps: dict[tuple[ExecutionId, int], dict[str, Any]] = {}
        self.calls: dict[tuple[ExecutionId, Position], Call] = {}
        self.steps: dict[tuple[ExecutionId, Position], dict[int, StepRecord]] = {}
        self.requests: dict[RequestId, Request] = {}
        self.workers: dict[WorkerId, int] = {}
        self.begun: dict[ExecutionId, str] = {}
        self.marks: dict[ExecutionId, int] = {}
        self.attempts: dict[ExecutionId, dict[str, int]] = {}
        self.sessions: dict[tuple[str, str], Any] = {}
        self.ledger: dict[tuple[ExecutionId, int], Any] = {}
        self.holds: dict[ExecutionId, Any] = {}
        self.refusals: dict[int, Refusal] = {}
        self.hooks: dict[ExecutionId, HookTarget] = {}
        self.deliveries: dict[str, Any] = {}
        self.hook_cursor = 0
        self.triggers: dict[tuple[str, TriggerKind], tuple[str, TriggerRecord]] = {}
        self.firings: dict[FiringId, Firing] = {}
        self.delivery_keys: dict[tuple[str, str], tuple[FiringId, float]] = {}
        self.executions_of: dict[FiringId, ExecutionId] = {}
        """Of firings whose execution was removed."""
        self.pauses: dict[str, Pause] = {}
        self.watched: dict[str, dict[str, FileState]] = {}
        self.tombstones: dict[ExecutionId, str] = {}
        self.removed_answers: list[GivenAnswer] = []
        """Executions that were removed, with their agents."""
        self.grants: dict[GrantId, Grant] = {}
        self.last_grant = 0
        self.last_seq = 0
        self.last_firing = 0

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Holds the lock; when the block raises, everything is as it was before it."""
        with self.lock:
            before = {name: _copied(value) for name, value in vars(self).items() if name not in ("lock", "now")}
            try:
                yield
            except BaseException:
                vars(self).update(before)
                raise

    def execution(self, execution_id: ExecutionId) -> Execution:
        if execution_id in self.tombstones:
            raise UnknownExecution(f"execution {execution_id} was removed")
        if execution_id not in self.executions:
            raise UnknownExecution(f"there is no execution {execution_id}; list them with: agentmd logs")
        return self.executions[execution_id]

    def request(self, request_id: RequestId) -> Request:
        if request_id not in self.requests:
            raise UnknownRequest(f"there is no request {request_id}; list the open ones with: agentmd pending")
        return self.requests[request_id]

    def call(self, execution_id: ExecutionId, position: Position) -> Call:
        if (execution_id, position) not in self.calls:
            raise StoreError(f"execution {execution_id} has no call at {position}; store its message first")
        return self.calls[execution_id, position]

    def change(self, execution_id: ExecutionId, **fields: Any) -> Execution:
        self.version += 1
        changed = replace(self.executions[execution_id], **fields)
        self.executions[execution_id] = changed
        return changed

    def change_call(self, execution_id: ExecutionId, position: Position, **fields: Any) -> None:
        self.version += 1
        self.calls[execution_id, position] = replace(self.call(execution_id, position), **fields)

    def add_event(
        self, execution_id: ExecutionId, key: str, kind: EventType, message: str, data: dict[str, Any]
    ) -> None:
        """Stores an event, unless the execution has one with this key."""
        events = self.events.setdefault(execution_id, {})
        if key in events:
            return
        self.version += 1
        self.last_seq += 1
        events[key] = Event(self.last_seq, execution_id, key, kind, message, as_json(data), self.now())

    def tell(self, execution_id: ExecutionId, key: str, kind: EventType, message: str, data: dict[str, Any]) -> None:
        """Stores an event of an execution, and of its root."""
        self.add_event(execution_id, key, kind, message, data)
        root = self.executions[execution_id].root
        if root != execution_id:
            below = {"child_execution_id": execution_id, **data}
            self.add_event(root, f"{execution_id}:{key}", kind, message, below)

    def insert(
        self,
        new: NewExecution,
        spec: str,
        spec_digest: str,
        seed: list[dict[str, Any]],
        position: Position | None = None,
    ) -> ExecutionId:
        """Adds a queued execution, with its first events."""
        execution_id = ExecutionId(len(self.executions) + len(self.tombstones) + 1)
        self.executions[execution_id] = Execution(
            id=execution_id,
            agent=new.agent,
            spec_digest=spec_digest,
            trigger=new.trigger,
            status=Status.QUEUED,
            created_at=self.now(),
            session_id=new.session_id,
            parent_id=new.parent_id,
            position=position,
            root_id=execution_id if new.parent_id is None else self.executions[new.parent_id].root,
        )
        self.specs[execution_id] = spec
        self.seeds[execution_id] = seed
        started: dict[str, Any] = {"agent": new.agent, "trigger": new.trigger, "session_id": new.session_id}
        if (model := json.loads(spec).get("model")) is not None:
            started["model"] = model
        self.add_event(execution_id, "system", EventType.SYSTEM, "Started", started)
        text = shown_text(seed[-1]["data"]["content"])
        self.add_event(execution_id, "human", EventType.HUMAN, text, {"message": seed[-1]})
        return execution_id

    def waits(self, execution_id: ExecutionId) -> dict[WaitId, bool]:
        requests: dict[WaitId, bool] = {r.id: r.open for r in self.requests.values() if r.execution_id == execution_id}
        children = [x for x in self.executions.values() if x.parent_id == execution_id]
        return requests | {child_wait(x.id): not x.status.final for x in children}

    def family(self, execution_id: ExecutionId) -> list[Execution]:
        ids = {execution_id}
        for execution in self.executions.values():
            if execution.parent_id in ids:
                ids.add(execution.id)
        return [self.told(execution) for execution in self.executions.values() if execution.id in ids]

    def told(self, execution: Execution) -> Execution:
        """With the status that people are told."""
        if not execution.parked:
            return execution
        ids = {execution.id}
        for other in self.executions.values():
            if other.parent_id in ids:
                ids.add(other.id)
        asks = len(ids) == 1 or any(request.open and request.execution_id in ids for request in self.requests.values())
        return execution if asks else replace(execution, status=Status.RUNNING)

    def cancel(self, execution_id: ExecutionId, by: str, *, itself: bool = True) -> None:
        for execution in self.family(execution_id):
            mine = itself or execution.id != execution_id
            if mine and not execution.status.final and execution.cancelled_by is None:
                self.change(execution.id, cancelled_by=by)

    def tell_waiting(self, execution_id: ExecutionId, key: str, *, again: bool = True) -> None:
        family = {execution.id for execution in self.family(execution_id)}
        open_ids = [request.id for request in self.open_requests() if request.execution_id in family]
        told = [e.data["request_ids"] for e in self.events[execution_id].values() if e.type is EventType.WAITING]
        if open_ids and (again or told[-1:] != [open_ids]):
            count = "an answer" if len(open_ids) == 1 else f"{len(open_ids)} answers"
            self.add_event(execution_id, key, EventType.WAITING, f"Waiting for {count}", {"request_ids": open_ids})

    def open_requests(self, execution_id: ExecutionId | None = None) -> list[Request]:
        return [
            request
            for request in self.requests.values()
            if request.open and execution_id in (None, request.execution_id)
        ]

    def open_request(self, execution: Execution, new: NewRequest) -> None:
        """Opens a request, unless it is there."""
        if new.id in self.requests:
            return
        now = self.now()
        self.requests[new.id] = Request(
            id=new.id,
            execution_id=execution.id,
            agent=execution.agent,
            position=new.position,
            source=new.source,
            kind=new.kind,
            message=new.message,
            digest=new.digest,
            occurrence=new.occurrence,
            created_at=now,
            path=self.path(execution),
            tool_name=new.tool_name,
            tool_args=as_json(new.tool_args),
            options=new.options,
            multi=new.multi,
            questions=None if new.questions is None else tuple(as_json(new.questions)),
            payload=as_json(new.payload),
            response_schema=as_json(new.response_schema),
            preview=new.preview,
            rule=new.rule,
            offer=new.offer,
            expires_at=None if new.expires_in is None else now + new.expires_in,
        )
        self.tell_request(execution.id, new)

    def path(self, execution: Execution) -> tuple[PathStep, ...]:
        if execution.parent_id is None:
            return ()
        above = self.executions[execution.parent_id]
        begin = self.path(above) or (PathStep(above.id, above.agent),)
        return (*begin, PathStep(execution.id, execution.agent))

    def tell_request(self, execution_id: ExecutionId, new: RequestContent) -> None:
        self.tell(
            execution_id,
            f"request:{new.id}",
            EventType.INTERRUPT,
            new.message,
            {"request_id": new.id, "kind": new.kind, "position": str(new.position), "tool_name": new.tool_name},
        )

    def decide(
        self,
        request: Request,
        outcome: Outcome,
        value: Any,
        by: str,
        digest: str | None = None,
        at: float | None = None,
        grant_id: GrantId | None = None,
    ) -> Answer:
        """Records the one answer of an open request, decided `at` a time before if that is given."""
        self.version += 1
        decided_at = self.now() if at is None else at
        answer = Answer(request.id, outcome, as_json(value), by, decided_at, self.now(), digest, grant_id)
        self.requests[request.id] = replace(request, answer=answer)
        if outcome is not Outcome.CANCELLED:
            self.tell(
                request.execution_id,
                f"answer:{request.id}",
                EventType.RESUMED,
                outcome.value,
                {"request_id": request.id, "outcome": outcome, "value": answer.value, "answered_by": by}
                | ({} if grant_id is None else {"grant_id": grant_id}),
            )
        return answer

    def refuse_retracted(self, request_ids: Collection[RequestId]) -> None:
        """Raises AnswerRetracted if the answer to one of them was retracted."""
        for request_id in request_ids:
            retraction = self.request(request_id).retraction
            if retraction is not None:
                raise retracted(self.request(request_id), retraction)

    def use_answers(self, request_ids: Collection[RequestId]) -> None:
        """A call acts on the answers to these requests."""
        for request in map(self.request, request_ids):
            if request.answer is not None and request.answer.used_at is None:
                self.requests[request.id] = replace(request, answer=replace(request.answer, used_at=self.now()))

    def use_all_answers(self, execution_id: ExecutionId, position: Position) -> None:
        of_call = [r for r in self.requests.values() if (r.execution_id, r.position) == (execution_id, position)]
        self.use_answers([request.id for request in of_call])

    def agents_of(self, execution_id: ExecutionId) -> tuple[str, str]:
        """The agent of an execution, and that of the one at the root of it."""
        root = own = self.executions[execution_id]
        while root.parent_id is not None:
            root = self.executions[root.parent_id]
        return own.agent, root.agent

    def bury(self, execution_id: ExecutionId) -> None:
        """Removes an ended execution with all that is its own."""
        self.version += 1
        self.tombstones[execution_id] = self.executions.pop(execution_id).agent
        for table in (self.specs, self.seeds, self.events, self.attempts):
            table.pop(execution_id, None)
        for of_turn in (self.model_steps, self.calls, self.steps):
            for key in [key for key in of_turn if key[0] == execution_id]:
                of_turn.pop(key)
        for request in [r for r in self.requests.values() if r.execution_id == execution_id]:
            given = GivenAnswer.of(self.requests.pop(request.id))
            if given is not None:
                answer = replace(given.answer, recorded_at=given.answer.answered_at, digest=None, used_at=None)
                self.removed_answers.append(replace(given, answer=replace(answer, grant_id=None), request=None))
        for grant in [g for g in self.grants.values() if g.execution_id == execution_id]:
            self.grants.pop(grant.id)
        for firing in [f for f in self.firings.values() if f.execution_id == execution_id]:
            reason = f"its execution {execution_id} was removed"
            self.firings[firing.id] = replace(firing, execution_id=None, reason=reason)
            self.executions_of[firing.id] = execution_id

    def take(self, execution_id: ExecutionId, worker: WorkerId) -> Claim:
        """Gives the execution to a worker, with the next epoch."""
        before = self.executions[execution_id]
        self.holds.pop(execution_id, None)
        self.change(
            execution_id,
            status=Status.RUNNING,
            parked=False,
            worker=worker,
            epoch=before.epoch + 1,
            started_at=max(self.now(), before.created_at) if before.started_at is None else before.started_at,
        )
        self.begun.pop(execution_id, None)
        self.marks.pop(execution_id, None)
        return Claim(execution_id, worker, before.epoch + 1)

    def leave(self, execution_id: ExecutionId, status: Status, **fields: Any) -> None:
        """Takes the execution from its worker."""
        self.holds.pop(execution_id, None)
        self.begun.pop(execution_id, None)
        self.marks.pop(execution_id, None)
        self.change(execution_id, status=status, parked=status is Status.WAITING, worker=None, **fields)

    def place(self, execution_id: ExecutionId) -> str | None:
        """What the drive has in flight."""
        epoch = self.executions[execution_id].epoch
        started = sorted(
            (call.position, call.tool)
            for (owner, _), call in self.calls.items()
            if owner == execution_id and call.state is CallState.STARTED and call.epoch == epoch
        )
        return f"call {started[0][0]} ({started[0][1]})" if started else self.begun.get(execution_id)

    def count_attempt(self, execution_id: ExecutionId, place: str) -> int:
        counts = self.attempts.setdefault(execution_id, {})
        counts[place] = counts.get(place, 0) + 1
        most = min(place for place in counts if counts[place] == max(counts.values()))
        self.change(execution_id, attempts=counts[most], attempted=most)
        return counts[place]

    def progress(self, execution_id: ExecutionId) -> None:
        """Something new was stored: what was in flight is over."""
        if execution_id in self.begun:
            self.begun[execution_id] = BETWEEN
        self.attempts.pop(execution_id, None)
        self.change(execution_id, attempts=0, attempted=None, suspect=False)

    def settle_deaths(self, workers: Workers) -> None:
        """Queues what dead workers drove, and tells whom their deaths are counted against."""
        running = [x for x in self.executions.values() if x.status is Status.RUNNING]
        for worker in {x.worker for x in running if x.worker is not None and not workers.alive(x.worker)}:
            driven = [x.id for x in running if x.worker == worker]
            places = {x: place for x in driven if (place := self.place(x)) is not None}
            if workers.ended_by_order(worker):
                places = {}
            for x in driven:
                before = self.executions[x]
                lost = max(0, workers.worked(worker) - self.marks.get(x, workers.worked(worker)))
                fields = {"work_ms": before.work_ms + lost, "suspect": before.suspect or x in places}
                self.leave(x, Status.QUEUED, **fields)
            if len(places) == 1:
                ((x, place),) = places.items()
                self.count_attempt(x, place)
            workers.forget(worker)

    def wake(self, execution_id: ExecutionId) -> None:
        """A waiting execution has work again."""
        if self.executions[execution_id].status is Status.WAITING:
            self.change(execution_id, status=Status.QUEUED, parked=False)

    def expire(self, requests: list[Request]) -> list[Answer]:
        """Records the expiry of those of the open requests whose deadline has come, and wakes their executions."""
        now = self.now()
        overdue = [r for r in requests if r.open and r.expires_at is not None and r.expires_at <= now]
        answers = [self.decide(r, Outcome.EXPIRED, None, "timeout", at=r.expires_at) for r in overdue]
        for request in overdue:
            self.wake(request.execution_id)
        return answers


def _copied(table: Any) -> Any:
    """A copy of a table, two levels deep: below are values that never change."""
    if not isinstance(table, dict):
        return table
    return {key: dict(row) if isinstance(row, dict) else row for key, row in table.items()}

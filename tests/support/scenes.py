"""Short ways to bring a store into a state, through nothing but its port."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_md.executions.calls import Proposal
from agent_md.executions.execution import Claim, Execution, NewExecution, Usage
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.requests import NewRequest
from agent_md.executions.states import (
    CallOutcome,
    CallState,
    Decision,
    Outcome,
    RequestKind,
    RequestSource,
    Status,
    TriggerKind,
)
from agent_md.ports.journal import ExecutionEnd, Journal
from agent_md.ports.store import NewAnswer, Store
from tests.support.workers import FakeWorkers

__all__ = [
    "FIRST",
    "SPEC",
    "W1",
    "W2",
    "abort",
    "ai",
    "approve",
    "ask",
    "begin",
    "deny",
    "finish_call",
    "gate_request",
    "human",
    "journal_of",
    "parked",
    "proposal",
    "record",
    "snapshot",
    "succeed",
    "taken_over",
    "tool",
    "types_of",
]

W1 = WorkerId("worker-1")
W2 = WorkerId("worker-2")
FIRST = Position(0, 0)
SPEC = json.dumps({"format": 1, "name": "writer", "model": {"provider": "script", "name": "test", "base_url": None}})


def human(text: str) -> dict[str, Any]:
    return {"type": "human", "data": {"content": text, "id": "human-1"}}


def ai(text: str, *calls: Proposal) -> dict[str, Any]:
    asked = [{"id": call.call_id, "name": call.tool, "args": call.args} for call in calls]
    return {"type": "ai", "data": {"content": text, "id": "ai-1", "tool_calls": asked}}


def tool(text: str, call_id: str = "call-0.0") -> dict[str, Any]:
    return {"type": "tool", "data": {"content": text, "tool_call_id": call_id, "name": "file_read", "id": "tool-1"}}


def begin(
    store: Store,
    *,
    agent: str = "writer",
    session_id: str | None = None,
    parent_id: ExecutionId | None = None,
    worker: WorkerId | None = W1,
    text: str = "Hello",
    skip: bool = False,
    spec: str = SPEC,
) -> Execution:
    """A new execution; driven by `W1`, unless told otherwise."""
    new = NewExecution(agent, TriggerKind.MANUAL, (human(text),), session_id, parent_id)
    return store.create(
        new, spec=spec, spec_digest=hashlib.sha256(spec.encode()).hexdigest(), skip_if_waiting=skip, worker=worker
    )


def journal_of(store: Store, execution: Execution | Claim) -> Journal:
    """The journal of whoever drives the execution now, or of this claim."""
    if isinstance(execution, Claim):
        return store.journal(execution)
    now = store.execution(execution.id)
    assert now.worker is not None, f"execution {now.id} is {now.status}, nobody drives it"
    return store.journal(Claim(now.id, now.worker, now.epoch))


def proposal(turn: int = 0, index: int = 0, **fields: Any) -> Proposal:
    position = Position(turn, index)
    call = Proposal(position, f"call-{position}", "file_read", {"path": "a.md"}, Decision.RUN)
    return replace(call, **fields)


def gate_request(journal: Journal, position: Position = FIRST, **fields: Any) -> NewRequest:
    request_id = RequestId(f"r{journal.claim.execution_id}-{position}")
    request = NewRequest(
        id=request_id,
        position=position,
        source=RequestSource.GATE,
        kind=RequestKind.CONFIRM,
        message=f"Run file_read at {position}?",
        digest="digest-of-action",
        tool_name="file_read",
        tool_args={"path": "a.md"},
    )
    return replace(request, **fields)


def record(
    journal: Journal, turn: int = 0, calls: Sequence[Proposal] = (), usage: Usage | None = None
) -> tuple[str, ...]:
    """Stores AI message `turn` with these calls; gives what the log is told."""
    message = ai(f"turn {turn}", *calls)
    return journal.record_model_step(turn, message, f"turn {turn}", usage or Usage(10, 5, 0.25), calls)


def ask(
    journal: Journal, turn: int = 0, count: int = 1, expires_in: float | None = None, **fields: Any
) -> list[RequestId]:
    """Stores AI message `turn` with `count` guarded calls; the ids of their requests, oldest first."""
    calls = []
    for index in range(count):
        request = gate_request(journal, Position(turn, index), expires_in=expires_in, **fields)
        calls.append(proposal(turn, index, decision=Decision.ASK, request=request))
    record(journal, turn, calls)
    return [call.request.id for call in calls if call.request is not None]


def parked(
    store: Store, count: int = 1, expires_in: float | None = None, **execution: Any
) -> tuple[Execution, list[RequestId]]:
    """An execution that waits for the answers to `count` requests, with their ids."""
    started = begin(store, **execution)
    journal = journal_of(store, started)
    ids = ask(journal, count=count, expires_in=expires_in)
    assert journal.park([frozenset({request_id}) for request_id in ids])
    return store.execution(started.id), ids


def approve(request_id: RequestId) -> NewAnswer:
    return NewAnswer(request_id, Outcome.APPROVED, {"approved": True})


def deny(request_id: RequestId) -> NewAnswer:
    return NewAnswer(request_id, Outcome.DENIED, {"approved": False})


def finish_call(journal: Journal, position: Position = FIRST, text: str = "done") -> None:
    message = tool(text, f"call-{position}")
    journal.finish_call(position, CallState.FINISHED, CallOutcome.DONE, text, message)


def succeed(journal: Journal, output: str = "All done.") -> None:
    journal.finish(ExecutionEnd(Status.SUCCESS, output=output))


def abort(journal: Journal, by: str | None = None) -> None:
    journal.finish(ExecutionEnd(Status.ABORTED, error="cancelled", ended_by=by))


def snapshot(store: Store, execution_id: ExecutionId) -> tuple[Any, ...]:
    """Everything the store tells about an execution."""
    calls = store.calls(execution_id)
    return (
        store.execution(execution_id),
        store.events(execution_id),
        calls,
        [store.steps(execution_id, call.position) for call in calls],
        store.requests(execution_id),
        [store.model_step(execution_id, turn) for turn in range(10)],
    )


def types_of(store: Store, execution_id: ExecutionId) -> list[str]:
    """The types of an execution's events, in order."""
    return [event.type.value for event in store.events(execution_id)]


def taken_over(store: Store, workers: FakeWorkers, journal: Journal, worker: WorkerId = W2) -> Journal:
    """The journal of a worker that takes the execution after its driver died."""
    workers.kill(journal.claim.worker)
    claim = store.claim(journal.claim.execution_id, workers.start(worker))
    assert claim is not None
    return store.journal(claim)

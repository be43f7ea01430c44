"""Requests, events and executions as a store would give them, with only what a test is about to be named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from agent_md.executions.execution import Event, Execution
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Answer, Request
from agent_md.executions.states import CallOutcome, EventType, Outcome, RequestKind, RequestSource, Status, TriggerKind

__all__ = ["NOON", "ai", "an_event", "an_execution", "answered", "ask", "complete", "guard", "result"]

NOON = datetime(2026, 3, 8, 12, 0, 0, tzinfo=UTC).timestamp()


def guard(tool: str = "file_delete", args: dict[str, Any] | None = None, **fields: Any) -> Request:
    """A request of the gate to confirm a call."""
    shown = {"path": "output/stale.log"} if args is None else args
    return _request(RequestKind.CONFIRM, RequestSource.GATE, tool_name=tool, tool_args=shown, **fields)


def ask(kind: RequestKind, message: str = "", **fields: Any) -> Request:
    """A request that a tool raised while it ran."""
    return _request(kind, RequestSource.TOOL, message=message, **fields)


def answered(outcome: Outcome, value: Any = None, by: str = "cli:ann", request: str = "r1") -> Answer:
    return Answer(RequestId(request), outcome, value, by, NOON + 60, NOON + 60)


def an_event(type: EventType, message: str = "", *, seq: int = 1, **data: Any) -> Event:
    return Event(seq, ExecutionId(42), f"{type}:{seq}", type, message, data, NOON)


def ai(text: str, *, calls: bool) -> Event:
    event = an_event(EventType.AI, text)
    event.data["message"] = {"type": "ai", "data": {"tool_calls": [{"name": "file_delete"}] if calls else []}}
    return event


def result(text: str, outcome: CallOutcome = CallOutcome.DONE) -> Event:
    return an_event(EventType.TOOL_RESULT, text, tool_name="file_delete", outcome=str(outcome), position="0.0")


def complete(status: str, error: str | None = None, cost: float | None = 0.0123) -> Event:
    return an_event(
        EventType.COMPLETE, status, status=status, error=error, duration_ms=1500, total_tokens=1234, cost_usd=cost
    )


def an_execution(**fields: Any) -> Execution:
    given: dict[str, Any] = {
        "id": ExecutionId(42),
        "agent": "cleaner",
        "spec_digest": "d",
        "trigger": TriggerKind.MANUAL,
        "status": Status.RUNNING,
        "created_at": NOON,
    }
    return Execution(**(given | fields))


def _request(kind: RequestKind, source: RequestSource, **fields: Any) -> Request:
    given: dict[str, Any] = {
        "id": RequestId("r1"),
        "execution_id": ExecutionId(42),
        "agent": "cleaner",
        "position": Position(0, 0),
        "message": "",
        "digest": "d1",
        "occurrence": 0,
        "created_at": NOON,
    }
    return Request(**(given | {"kind": kind, "source": source} | fields))

"""The JSON body of a webhook."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_md.executions.chat_messages import reply
from agent_md.executions.deliveries import HookEvent
from agent_md.executions.execution import Execution
from agent_md.executions.sessions import SessionStatus, error_of

__all__ = ["body_of", "ids_in"]

_STATUS = {
    HookEvent.COMPLETED: SessionStatus.IDLE,
    HookEvent.FAILED: SessionStatus.ERROR,
    HookEvent.INTERRUPT: SessionStatus.INTERRUPTED,
    HookEvent.UNKNOWN: SessionStatus.RUNNING,
}


def body_of(
    event: HookEvent,
    event_id: str,
    execution: Execution,
    *,
    interrupts: Sequence[dict[str, Any]] = (),
    calls: Sequence[dict[str, Any]] = (),
    messages: Sequence[dict[str, Any]] | None = None,
) -> str:
    """The body, in plain ASCII: `status` and what goes with it are those of the event, not of what came later.

    `interrupts` are views of requests, `calls` are those that may have run, `messages` chat messages, None = not wanted.
    """
    body: dict[str, Any] = {
        "event": event,
        "event_id": event_id,
        "agent_id": execution.agent,
        "execution_id": execution.id,
        "session_id": execution.session_id,
        "status": _STATUS[event],
    }
    if calls and event is not HookEvent.INTERRUPT:
        body["calls"] = list(calls)
    if event is HookEvent.INTERRUPT:
        body["interrupts"] = list(interrupts)
    elif event is HookEvent.FAILED:
        body["error"] = error_of(execution)
    elif event is HookEvent.COMPLETED and execution.output is not None:
        body["response"] = reply(execution.output)
        body |= {} if execution.cut is None else {"cut": execution.cut}
    if messages is not None:
        body["messages"] = list(messages)
    return json.dumps(body, ensure_ascii=True, separators=(",", ":"))


def ids_in(body: str) -> frozenset[str]:
    """The ids of the requests, or the positions of the calls, in a body."""
    said = json.loads(body)
    requests = [interrupt["interrupt_id"] for interrupt in said.get("interrupts", ())]
    return frozenset([*requests, *(call["position"] for call in said.get("calls", ()))])

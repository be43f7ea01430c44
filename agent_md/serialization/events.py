"""The JSON objects of stored events, in the log and as lines of `run --json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agent_md.executions.execution import Event, Execution
from agent_md.executions.states import EventType
from agent_md.serialization.times import iso_time

__all__ = ["event_json", "run_event_line"]


def event_json(event: Event) -> dict[str, Any]:
    """A stored event as an entry of the log. `metadata` is its data as a JSON string."""
    return {
        "id": event.seq,
        "execution_id": event.execution_id,
        "timestamp": iso_time(event.at),
        "event_type": str(event.type),
        "message": _message(event),
        "metadata": json.dumps(event.data),
    }


def _message(event: Event) -> str:
    """The text of an event; that of a result begins with the name of its tool, as that of a call does."""
    if event.type is EventType.TOOL_RESULT:
        return f"{event.data['tool_name']} ← {event.message}"
    return event.message


def run_event_line(event: Event, execution: Execution, requests: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A stored event as one line of `run --json`.

    The first event is called `execution_started`, the others by their type; what an event holds stands beside its
    name, except the full message in provider form. `requests` are shapes: a `waiting` line carries those of the open
    ones, and an `interrupt` line has all that the shape of its own has.
    """
    started = event.type is EventType.SYSTEM
    line: dict[str, Any] = {
        "event": "execution_started" if started else str(event.type),
        "execution_id": event.execution_id,
        "id": event.seq,
        "timestamp": iso_time(event.at),
        "message": _message(event),
    }
    if started:
        line |= {"agent_name": execution.agent, "trigger": str(execution.trigger)}
    if event.type is EventType.WAITING:
        line["requests"] = list(requests)
    beside = dict(event.data)
    if event.type is EventType.INTERRUPT:
        for request in requests:
            beside |= request
    return line | {key: value for key, value in beside.items() if key not in line}

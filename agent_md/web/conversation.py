"""The conversation of an execution, for people who answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from agent_md.executions.execution import Event, Execution
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request
from agent_md.executions.states import EventType
from agent_md.ports.store import Store
from agent_md.wording.request_text import decision_text, summary

__all__ = ["Line", "conversation_of", "lines_of"]

_LAST = 200
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. `who` and `kind` are ours, `text` is of others."""

    at: str
    kind: str
    who: str
    text: str
    request_id: str | None = None


def conversation_of(store: Store, execution: Execution) -> list[Line]:
    """The last events of an execution, in order."""
    events = store.events(execution.id)
    return lines_of(events[-_LAST:], {request.id: request for request in store.requests(execution.id)})


def lines_of(events: list[Event], requests: dict[RequestId, Request]) -> list[Line]:
    """The lines for these events; very long texts say how much of them is left out."""
    return [line for event in events for line in _lines(event, requests)]


def _lines(event: Event, requests: dict[RequestId, Request]) -> Iterator[Line]:
    at = datetime.fromtimestamp(event.at, UTC).astimezone().strftime("%H:%M:%S")
    data = event.data
    request_id: str | None = data.get("request_id")
    request = requests.get(RequestId(request_id)) if request_id is not None else None
    match event.type:
        case EventType.HUMAN:
            yield Line(at, "human", "message", _cut(event.message))
        case EventType.AI if event.message.strip():
            yield Line(at, "ai", "agent", _cut(event.message))
        case EventType.TOOL_CALL:
            args = json.dumps(data.get("args", data.get("tool_args", {})), ensure_ascii=False, indent=2)
            yield Line(at, "call", f"call {data.get('tool_name', '')}", _cut(args))
        case EventType.TOOL_RESULT:
            yield Line(at, "result", f"result of {data.get('tool_name', '')}", _cut(event.message))
        case EventType.INTERRUPT:
            yield Line(at, "asked", "asked", event.message if request is None else summary(request), request_id)
        case EventType.RESUMED | EventType.RETRACTED:
            yield Line(at, "decided", "decided", event.message if request is None else decision_text(request))
        case EventType.COMPLETE:
            yield Line(at, "end", "end", str(data.get("status", "")))
        case EventType.CHILD_STARTED | EventType.CHILD_ENDED:
            yield Line(at, "child", "called agent", _cut(event.message))
        case _:
            return


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"

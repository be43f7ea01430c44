"""Server-sent events from the store: what was and what comes in one stream, without gap or repeat.

Only stored events carry an id, their sequence number; so a client that comes back with the last one goes on there.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from fastapi.responses import StreamingResponse

from agent_md.api.context import ServerContext
from agent_md.engines.hub import Delta
from agent_md.executions.model import Event, EventType, Execution, ExecutionId
from agent_md.shapes import iso_time, run_event_line

__all__ = ["execution_stream", "global_stream", "sse_response"]

_HEARTBEAT_S = 10.0
_BATCH = 200
_GLOBAL = (EventType.SYSTEM, EventType.WAITING, EventType.RESUMED, EventType.COMPLETE)
_COMMENT = ": alive\n\n"


def sse_response(stream: AsyncIterator[str]) -> StreamingResponse:
    """The stream as a response that no proxy holds back."""
    headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    return StreamingResponse(stream, media_type="text/event-stream", headers=headers)


def _message(event: str, data: dict[str, Any], number: int | None = None) -> str:
    head = f"event: {event}\n" + (f"id: {number}\n" if number is not None else "")
    return f"{head}data: {json.dumps(data)}\n\n"  # JSON in ASCII: no line break of whatever kind is left in it


def _position(last_event_id: str | None, known: Any) -> tuple[int, bool]:
    """Where to go on, and whether the client must be told that it starts anew."""
    if last_event_id is None or last_event_id == "":
        return 0, False
    if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19 and known(int(last_event_id)):
        return int(last_event_id), False
    return 0, True


async def execution_stream(
    context: ServerContext, execution: Execution, last_event_id: str | None
) -> AsyncIterator[str]:
    """Everything of one execution from the position on; `complete` ends it, nothing else of the execution does."""
    store = context.store
    after, anew = _position(last_event_id, lambda seq: store.has_event(seq, execution.id))
    if anew:
        yield _message("resync", {"execution_id": execution.id})
    with context.counted_stream(), context.hub.watch(execution.id) as watch:
        said, whole = time.monotonic(), -1
        while not context.stopping:
            watch.clear()
            for piece in _pieces(execution.id, watch.deltas, whole):
                yield piece
            events = store.events(execution.id, after=after, limit=_BATCH)
            for event in events:
                yield _of_execution(context, execution, event)
                after = event.seq
                if event.type is EventType.AI:
                    whole = int(event.key.partition(":")[2])
                if event.type is EventType.COMPLETE:
                    return
            if events:
                said = time.monotonic()
                continue
            if execution.status.final:  # `complete` is behind the position
                return
            await watch.wait(_HEARTBEAT_S)
            if time.monotonic() - said >= _HEARTBEAT_S:
                said = time.monotonic()
                yield _COMMENT


def _of_execution(context: ServerContext, execution: Execution, event: Event) -> str:
    open_requests = context.open_request_shapes(execution) if event.type is EventType.WAITING else []
    return _message(str(event.type), run_event_line(event, execution, open_requests), event.seq)


def _pieces(execution_id: ExecutionId, deltas: asyncio.Queue[Delta], whole: int) -> Iterator[str]:
    """Those that are not of a message that was told whole."""
    while not deltas.empty():
        turn, text = deltas.get_nowait()
        if turn > whole:
            data = {"execution_id": execution_id, "turn": turn}
            yield _message("delta", {**data, "text": text} if text is not None else {**data, "restart": True})


async def global_stream(context: ServerContext, last_event_id: str | None) -> AsyncIterator[str]:
    """What happens to all executions from now on, or from the position on, and to agents."""
    store, hub = context.store, context.hub
    after, anew = _position(last_event_id, store.has_event)
    if anew:
        yield _message("resync", {})
    elif after == 0:
        after = store.last_event()
    with context.counted_stream(), context.announcements() as announcements:
        said = 0.0
        while not context.stopping:
            seen, newest = hub.generation, store.last_event()
            if time.monotonic() - said >= _HEARTBEAT_S:
                said = time.monotonic()
                yield _message("heartbeat", {"timestamp": iso_time(time.time())})
            events = store.all_events(_GLOBAL, after=after, limit=_BATCH)
            for event in events:
                after = event.seq
                yield _of_all(context, event)
            while not announcements.empty():
                name, data = announcements.get_nowait()
                yield _message(name, data)
            if not events:
                after = max(after, newest)
                await hub.wait(seen, _HEARTBEAT_S)


def _of_all(context: ServerContext, event: Event) -> str:
    execution = context.store.execution(event.execution_id)
    data: dict[str, Any] = {
        "execution_id": event.execution_id,
        "agent_name": execution.agent,
        "trigger": str(execution.trigger),
        "timestamp": iso_time(event.at),
    }
    match event.type:
        case EventType.SYSTEM:
            return _message("execution_started", data, event.seq)
        case EventType.WAITING:
            oldest = context.store.request(event.data["request_ids"][0])
            data |= {"request_id": oldest.id, "kind": str(oldest.kind), "request_ids": event.data["request_ids"]}
            return _message("execution_waiting", data, event.seq)
        case EventType.RESUMED:
            data |= {"request_id": event.data["request_id"], "outcome": event.data["outcome"]}
            return _message("execution_resumed", data, event.seq)
        case _:
            data |= {"status": event.data["status"], "duration_ms": event.data["duration_ms"]}
            return _message("execution_completed", data, event.seq)

"""Event streams of executions, read from the store: past and future events without gaps or repetitions.

Only stored events carry an id, their sequence number; so a client that comes back with the last one goes on there.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from agent_md.api.context import ServerContext
from agent_md.api.sse import COMMENT, HEARTBEAT_S, DeltaStream, Heartbeat, position, sse_message, turn_of
from agent_md.executions.execution import Event, Execution
from agent_md.executions.ids import RequestId
from agent_md.executions.states import EventType
from agent_md.serialization import iso_time, run_event_line

__all__ = ["event_line", "execution_stream", "global_stream", "told"]

_BATCH = 200
_GLOBAL = (EventType.SYSTEM, EventType.WAITING, EventType.RESUMED, EventType.RETRACTED, EventType.COMPLETE)


async def execution_stream(
    context: ServerContext, execution: Execution, last_event_id: str | None, *, heartbeat: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """Everything of one execution from the position on; `complete` ends it, nothing else of the execution does."""
    store = context.store
    after, anew = position(last_event_id, lambda seq: store.has_event(seq, execution.id))
    if anew:
        yield sse_message("resync", {"execution_id": execution.id})
    with context.counted_stream(), context.hub.watch(execution.id) as watch:
        beat, seen = Heartbeat(heartbeat), after or 0
        pieces = DeltaStream(store, watch, execution.id, resumed=last_event_id is not None)
        while not context.stopping:
            watch.clear()
            events = store.events(execution.id, after=seen, limit=_BATCH)
            for event in events:
                for text in told(event, await event_line(context, execution, event), pieces):
                    beat.sent()
                    yield text
                seen = event.seq
                if event.type is EventType.COMPLETE:
                    return
            if events:
                continue
            if execution.status.final:  # `complete` is behind the position
                return
            for piece in pieces.news():
                beat.sent()
                yield piece
            await watch.wait(beat.left)
            if not beat.left:
                beat.sent()
                yield COMMENT


def told(event: Event, line: dict[str, Any], pieces: DeltaStream | None) -> list[bytes]:
    """The messages for a stored event: `line`, and before it the rest of the message's pieces."""
    rest = pieces.news(turn_of(event)) if event.type is EventType.AI and pieces is not None else ()
    return [*rest, sse_message(str(event.type), line, event.seq)]


async def event_line(context: ServerContext, execution: Execution, event: Event) -> dict[str, Any]:
    """The data of a stored event. What it asks is read now: the event itself knows only the request's id."""
    requests: list[dict[str, Any]] = []
    if event.type is EventType.WAITING:
        requests = await context.open_requests_json(execution)
    elif event.type is EventType.INTERRUPT:
        request = context.store.request(RequestId(event.data["request_id"]))
        requests = await context.requests_json([request], under=execution)
    return run_event_line(event, execution, requests)


async def global_stream(
    context: ServerContext, last_event_id: str | None, *, heartbeat: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """What happens to all executions from now on, or from the position on, and to agents."""
    store, hub = context.store, context.hub
    after, anew = position(last_event_id, store.has_event)
    if anew:
        yield sse_message("resync", {})
    seen = after if after is not None else 0 if anew else store.last_event()
    with context.counted_stream(), context.announcements() as announcements:
        beat = Heartbeat(heartbeat)
        yield _heartbeat()
        while not context.stopping:
            generation, newest = hub.generation, store.last_event()
            events = store.all_events(_GLOBAL, after=seen, limit=_BATCH)
            for event in events:
                seen = event.seq
                beat.sent()
                yield _of_all(context, event)
            while not announcements.empty():
                name, data = announcements.get_nowait()
                beat.sent()
                yield sse_message(name, data)
            if not events:
                seen = max(seen, newest)
                await hub.wait(generation, beat.left)
            if not beat.left:
                beat.sent()
                yield _heartbeat()


def _heartbeat() -> bytes:
    return sse_message("heartbeat", {"timestamp": iso_time(time.time())})


def _of_all(context: ServerContext, event: Event) -> bytes:
    execution = context.store.execution(event.execution_id)
    data: dict[str, Any] = {
        "execution_id": event.execution_id,
        "agent_name": execution.agent,
        "trigger": str(execution.trigger),
        "timestamp": iso_time(event.at),
    }
    match event.type:
        case EventType.SYSTEM:
            return sse_message("execution_started", data, event.seq)
        case EventType.WAITING:
            oldest = context.store.request(event.data["request_ids"][0])
            data |= {"request_id": oldest.id, "kind": str(oldest.kind), "request_ids": event.data["request_ids"]}
            return sse_message("execution_waiting", data, event.seq)
        case EventType.RESUMED:
            data |= {"request_id": event.data["request_id"], "outcome": event.data["outcome"]}
            return sse_message("execution_resumed", data, event.seq)
        case EventType.RETRACTED:
            data |= {"request_id": event.data["request_id"], "replaced_by": event.data["replaced_by"]}
            return sse_message("answer_retracted", data, event.seq)
        case _:
            data |= {"status": event.data["status"], "duration_ms": event.data["duration_ms"]}
            return sse_message("execution_completed", data, event.seq)

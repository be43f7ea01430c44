"""`/health`, `/info`, `/shutdown` and the event stream of the workspace."""

from __future__ import annotations

import os
import time
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse

from agent_md import __version__
from agent_md.api.context import Context, ServerContext
from agent_md.api.errors import documented
from agent_md.api.event_streams import global_stream
from agent_md.api.request_bodies import NoBody
from agent_md.api.routes_triggers import scheduler_status
from agent_md.api.schemas import Health, Info, Stopping
from agent_md.api.sse import sse_response
from agent_md.api.strict_body import StrictRoute
from agent_md.errors import UnknownAgent, UsageError
from agent_md.executions.states import Status

__all__ = ["router"]

router = APIRouter(tags=["system"], route_class=StrictRoute)


@router.get("/health", response_model=Health)
async def health(context: Context) -> dict[str, Any]:
    """Whether the server answers, and what it has to do. Needs no key."""
    return _health(context)


@router.get("/agents/{name}/health", response_model=Health, responses=documented(404, 422))
async def agent_health(context: Context, name: str) -> dict[str, Any]:
    """The same, for clients that know the server by the path of one agent. Needs no key."""
    try:
        (await context.registry()).get(name)
    except UsageError:  # which has more to say than those without a key may know
        raise UnknownAgent("no agent that can be used has this name") from None
    return _health(context)


def _health(context: ServerContext) -> dict[str, Any]:
    running = context.store.count((Status.RUNNING,))
    return {
        "status": "ok",
        "working": running + context.store.count((Status.QUEUED,)),
        "waiting": context.store.count((Status.WAITING,)),
        "max_workers": context.app.settings.server.max_concurrent,
        "running_workers": running,
        "total_sessions": context.store.sessions.count(),
    }


@router.get("/info", response_model=Info, responses=documented())
async def info(context: Context) -> dict[str, Any]:
    """What this server is and does now."""
    agents = (await context.registry()).agents
    return {
        "version": __version__,
        "pid": os.getpid(),
        "uptime_seconds": round(time.monotonic() - context.started, 3),
        "agents_loaded": len(agents),
        "agents_enabled": sum(entry.spec.enabled for entry in agents),
        "scheduler_status": scheduler_status(context),
        "watcher_active": context.watches is not None and context.watches.active,
        "watcher_problems": {} if context.watches is None else dict(sorted(context.watches.problems.items())),
        "config_error": context.reloading.config.error,
        "restart_needed": list(context.reloading.config.restart),
        "tool_problems": context.reloading.tools.problems,
        "untrusted": context.reloading.trust.untrusted,
        "active_streams": context.streams,
        "active_executions": context.store.count((Status.RUNNING, Status.QUEUED)),
        "waiting_executions": context.store.count((Status.WAITING,)),
    }


@router.post("/shutdown", response_model=Stopping, responses=documented(400, 413, 422))
async def shutdown(context: Context, _body: NoBody | None = None) -> dict[str, Any]:
    """Stops the server: what runs may end for 3 s, the rest is cut and goes back to `queued`."""
    context.stop()
    return {"status": "stopping"}


@router.get("/events/stream", response_class=StreamingResponse, responses=documented())
async def events(context: Context, last_event_id: Annotated[str | None, Header()] = None) -> EventSourceResponse:
    """Server-sent events of all executions and agents, from now on, or from `Last-Event-ID` on."""
    return sse_response(global_stream(context, last_event_id))

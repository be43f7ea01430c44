"""Routes of triggers: schedules, pauses, firings."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query

from agent_md.api.context import Context, ServerContext
from agent_md.api.errors import documented
from agent_md.api.strict_body import StrictRoute
from agent_md.api.trigger_schemas import FiringEntry, PauseBody, Scheduler, UpcomingFireEntry
from agent_md.errors import UsageError
from agent_md.executions.days import instant_of
from agent_md.executions.firings import FiringState
from agent_md.serialization import firing_json, trigger_json
from agent_md.triggers.fire_times import at_text, zone_of
from agent_md.triggers.upcoming import coming

__all__ = ["router", "scheduler_status"]

router = APIRouter(tags=["triggers"], route_class=StrictRoute)

_BY = "http"


def scheduler_status(context: ServerContext) -> Literal["running", "paused"]:
    """`paused` while the triggers of all agents are."""
    return "paused" if any(pause.agent is None for pause in context.store.firings.pauses()) else "running"


async def _scheduler(context: ServerContext) -> dict[str, Any]:
    jobs = [
        {
            "agent_name": entry.spec.name,
            "trigger_type": entry.spec.trigger.type,
            **trigger_json(context.app.triggers.state(entry.spec)),
        }
        for entry in (await context.registry()).agents
        if entry.spec.trigger.type != "manual"
    ]
    return {"status": scheduler_status(context), "jobs": jobs}


@router.get("/scheduler", response_model=Scheduler, responses=documented())
async def scheduler(context: Context) -> dict[str, Any]:
    """Whether triggers are paused, and when each agent that has one fires next."""
    return await _scheduler(context)


@router.post("/scheduler/pause", response_model=Scheduler, responses=documented(400, 404, 413, 422))
async def pause_scheduler(context: Context, body: PauseBody | None = None) -> dict[str, Any]:
    """Pauses the triggers of all agents, or of one, until they are resumed; a restart changes nothing."""
    context.store.firings.pause(await _agent(context, body), _BY)
    return await _changed(context)


@router.post("/scheduler/resume", response_model=Scheduler, responses=documented(400, 404, 413, 422))
async def resume_scheduler(context: Context, body: PauseBody | None = None) -> dict[str, Any]:
    """Ends the pause of one agent, or without one every pause."""
    context.store.firings.resume(await _agent(context, body))
    return await _changed(context)


async def _agent(context: ServerContext, body: PauseBody | None) -> str | None:
    return None if body is None or body.agent is None else (await context.registry()).get(body.agent).spec.name


async def _changed(context: ServerContext) -> dict[str, Any]:
    context.announce("scheduler_changed", {"status": scheduler_status(context)})
    return await _scheduler(context)


@router.get("/schedule", response_model=list[UpcomingFireEntry], responses=documented(404, 422))
async def schedule(
    context: Context,
    agent: str | None = None,
    begin: Annotated[str | None, Query(alias="from", description="ISO 8601; without it from now on")] = None,
    n: Annotated[int, Query(ge=1, le=1000)] = 20,
) -> list[dict[str, Any]]:
    """The coming fires of all schedules or of one, in order; those of disabled and paused agents too."""
    registry = await context.registry()
    specs = [entry.spec for entry in registry.agents] if agent is None else [registry.get(agent).spec]
    try:
        after = time.time() if begin is None else instant_of(begin, datetime.now().astimezone().tzinfo)
    except ValueError as error:
        raise UsageError(f"from: {error}") from None
    zones = {spec.name: zone_of(spec.trigger) for spec in specs if spec.trigger.type == "schedule"}
    found = coming(context.store.firings, specs, after, n)
    return [{"agent": fire.agent, "at": at_text(fire.at, zones[fire.agent])} for fire in found]


@router.get("/firings", response_model=list[FiringEntry], responses=documented(422))
async def firings(
    context: Context,
    agent: str | None = None,
    state: FiringState | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**62)] = 0,
) -> list[dict[str, Any]]:
    """What became of each firing, newest first: the execution it started, or why it was skipped."""
    found = context.store.firings.listed(
        agent=agent, states=[] if state is None else [state], limit=limit, offset=offset
    )
    return [firing_json(firing) for firing in found]

"""Routes of agents: listing, reloading and running them."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query

from agent_md.agents.spec import AgentSpec
from agent_md.api.context import Context, ServerContext
from agent_md.api.errors import documented
from agent_md.api.request_bodies import NoBody
from agent_md.api.schemas import (
    AgentDetail,
    AgentSummary,
    ExecutionSummary,
    InvalidFile,
    Reloaded,
    RunAnswer,
    RunBody,
)
from agent_md.api.strict_body import StrictRoute
from agent_md.executions.states import TriggerKind
from agent_md.ports.store import Idempotency
from agent_md.serialization import agent_detail, agent_json, execution_json, invalid_json

__all__ = ["router"]

router = APIRouter(prefix="/agents", tags=["agents"], route_class=StrictRoute)


def _runs(context: ServerContext, spec: AgentSpec) -> dict[str, float | None]:
    found = context.store.executions(agent=spec.name, limit=1)
    return {"last_run": found[0].created_at if found else None, "next_run": context.app.triggers.next_fire(spec)}


@router.get("", response_model=list[AgentSummary], responses=documented())
async def list_agents(context: Context) -> list[dict[str, Any]]:
    """All agents that can be used, by name."""
    return [
        agent_json(entry.spec, context.app.settings.workspace, **_runs(context, entry.spec))
        for entry in (await context.registry()).agents
    ]


@router.get("/invalid", response_model=list[InvalidFile], responses=documented())
async def invalid_files(context: Context) -> list[dict[str, str]]:
    """The files that cannot be used, each with its mistakes."""
    return [invalid_json(item.file, item.error, item.last_good) for item in (await context.registry()).invalid]


@router.post("/reload", response_model=Reloaded, responses=documented(400, 413, 422))
async def reload(context: Context, _body: NoBody | None = None) -> dict[str, Any]:
    """Reads agent files, configuration and tool modules again, without waiting until a file has been left alone."""
    await context.reloading.loop.look(at_once=True)
    config = context.reloading.config
    return {
        "agents_loaded": len((await context.registry()).agents),
        "config_error": config.error,
        "restart_needed": list(config.restart),
    }


@router.get("/{name}", response_model=AgentDetail, responses=documented(404, 422))
async def one_agent(context: Context, name: str) -> dict[str, Any]:
    """One agent with all its settings."""
    spec = (await context.registry()).get(name).spec
    return agent_detail(spec, context.app.settings.workspace, **_runs(context, spec))


@router.post("/{name}/run", response_model=RunAnswer, responses=documented(400, 404, 409, 413, 422))
async def run(
    context: Context,
    name: str,
    body: RunBody | None = None,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=200)] = None,
) -> dict[str, Any]:
    """Starts an execution and answers at once. With the same `Idempotency-Key` and body, the first one again."""
    given = body or RunBody()
    idempotency = None if idempotency_key is None else Idempotency(idempotency_key, _digest(given))
    execution = await context.aside(
        lambda: context.app.starter.start(
            name,
            args=given.args,
            message=given.message,
            trigger=TriggerKind.API,
            session_id=given.session_id,
            claimed=False,
            idempotency=idempotency,
        )
    )
    context.begun(execution)
    return {"execution_id": execution.id, "model": str(context.app.spec_of(execution).model)}


@router.get("/{name}/runs", response_model=list[ExecutionSummary], responses=documented(404, 422))
async def runs(
    context: Context,
    name: str,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    offset: Annotated[int, Query(ge=0, le=2**62)] = 0,
) -> list[dict[str, Any]]:
    """The executions of one agent, newest first; also of one whose file is gone."""
    known_as = context.names_like(name)
    if not known_as:
        (await context.registry()).get(name)
    found = context.store.executions(agent=known_as, limit=limit, offset=offset)
    return [execution_json(execution) for execution in found]


def _digest(body: RunBody) -> str:
    return hashlib.sha256(json.dumps(body.model_dump(), sort_keys=True).encode()).hexdigest()

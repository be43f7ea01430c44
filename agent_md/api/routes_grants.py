"""Routes of grants: listing and revoking them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BeforeValidator

from agent_md.api.context import Context, ServerContext
from agent_md.api.errors import documented
from agent_md.api.schemas import GrantEntry
from agent_md.api.strict_body import StrictRoute, only_digits
from agent_md.executions.answers import client_name
from agent_md.executions.grants import Grant, GrantId
from agent_md.serialization import grant_json

__all__ = ["router"]

_LOCAL = "api"

_Id = Annotated[int, BeforeValidator(only_digits), Path(description="The grant's number.")]

router = APIRouter(tags=["grants"], route_class=StrictRoute)


@router.get("/grants", response_model=list[GrantEntry], responses=documented(422))
async def grants(
    context: Context,
    agent: str | None = None,
    ended: Annotated[bool, Query(description="Also those that allow nothing any more.")] = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**62)] = 0,
) -> list[dict[str, Any]]:
    """What was allowed from now on, newest first."""
    context.settle()
    names = None if agent is None else context.names_like(agent)
    return await _shapes(context, context.store.grants.listed(agents=names, ended=ended, limit=limit, offset=offset))


@router.delete("/grants/{grant_id}", response_model=GrantEntry, responses=documented(404, 422))
async def revoke(
    context: Context,
    grant_id: _Id,
    by: Annotated[str | None, Query(description="Who revokes it; recorded as `http:NAME`.")] = None,
) -> dict[str, Any]:
    """Ends the grant for calls of later messages and for calls that have not started. A grant that has ended does not
    change."""
    name = _LOCAL if by is None else client_name("http", by)
    (shape,) = await _shapes(context, [context.store.grants.revoke(GrantId(grant_id), by=name)])
    return shape


async def _shapes(context: ServerContext, found: list[Grant]) -> list[dict[str, Any]]:
    drift = await context.aside(lambda: context.app.drift_of_grants(found))
    return [grant_json(grant, drift[grant.id]) for grant in found]

"""The route that accepts signed deliveries to the webhooks of agents."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from agent_md.agents.spec import AgentSpec
from agent_md.api.context import Context, ServerContext
from agent_md.api.errors import documented
from agent_md.api.schemas import Detail
from agent_md.api.trigger_schemas import HookAnswer
from agent_md.errors import HookNotReady, UnknownAgent, UsageError
from agent_md.triggers.incoming_webhooks import HookDelivery
from agent_md.webhooks.incoming import check_signature, hook_secret

__all__ = ["router"]

router = APIRouter(prefix="/agents", tags=["triggers"])

_HEADERS = {
    "webhook-id": "Standard Webhooks: the sender's id of the delivery.",
    "webhook-timestamp": "Standard Webhooks: when it was signed, in seconds since 1970.",
    "webhook-signature": "Standard Webhooks: `v1,BASE64`, or several of these with blanks between them.",
    "X-Hub-Signature-256": "GitHub: `sha256=HEX`.",
    "X-GitHub-Delivery": "GitHub: the sender's id of the delivery.",
    "X-GitHub-Event": "GitHub: what happened.",
}
_OPENAPI: dict[str, Any] = {
    "parameters": [
        {"name": name, "in": "header", "required": False, "description": text, "schema": {"type": "string"}}
        for name, text in _HEADERS.items()
    ],
    "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}},
}
_UNSIGNED: dict[int | str, dict[str, Any]] = {
    401: {"model": Detail, "description": "No signature that holds; nothing was stored."}
}


@router.post(
    "/{name}/hooks",
    status_code=202,
    response_model=HookAnswer,
    responses=documented(404, 409, 413, 422, 503) | _UNSIGNED,
    openapi_extra=_OPENAPI,
)
async def deliver(context: Context, name: str, request: Request) -> dict[str, int]:
    """Takes a signed delivery and starts the agent with it, once, however often it comes within a week."""
    spec = await _hooked(context, name)
    body = await request.body()
    signed = check_signature(request.headers.getlist, body, _secret(context, spec))
    delivery = HookDelivery(
        convention=signed.convention,
        signature=signed.signature,
        id=signed.id,
        body=body,
        content_type=request.headers.get("content-type", ""),
        event=request.headers.get("x-github-event", ""),
    )
    execution_id = await context.aside(lambda: context.hooks.receive(spec.name, delivery))
    context.hub.stored()
    return {"execution_id": execution_id}


async def _hooked(context: ServerContext, name: str) -> AgentSpec:
    """The agent, if it has a webhook trigger. Whoever is not signed yet is told nothing of others."""
    try:
        spec = (await context.registry()).get(name).spec
    except UsageError:
        spec = None
    if spec is None or spec.trigger.type != "webhook":
        raise UnknownAgent("no agent with a webhook trigger has this name")
    return spec


def _secret(context: ServerContext, spec: AgentSpec) -> str:
    try:
        return hook_secret(spec.trigger, context.app.settings.environment())
    except ValueError:
        raise HookNotReady(
            "the secret of this webhook cannot be had, so no signature can be checked; `agentmd validate` says why"
        ) from None

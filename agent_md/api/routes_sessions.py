"""Routes of sessions, below `/sessions` and below the path of each agent."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse

from agent_md.api.context import ServerContext
from agent_md.api.errors import documented
from agent_md.api.long_poll import while_running
from agent_md.api.schemas import Detail
from agent_md.api.session_schemas import (
    ChatMessage,
    CreateSession,
    MessageBody,
    Moved,
    PostMessage,
    Resume,
    Session,
    SessionSummary,
    Webhook,
)
from agent_md.api.session_scope import Place, SessionScope, in_agent_path, uuid_of
from agent_md.api.session_stream import session_stream
from agent_md.api.sse import sse_response
from agent_md.api.strict_body import StrictRoute
from agent_md.errors import (
    ConversationBusy,
    ConversationWaiting,
    SessionBusy,
    SessionNotInterrupted,
    UnknownRequest,
    UsageError,
)
from agent_md.executions.calls import Call
from agent_md.executions.chat_messages import chat_message, stored_message
from agent_md.executions.execution import HookTarget
from agent_md.executions.grants import GrantScope
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request as HumanRequest
from agent_md.executions.session_interrupts import answer_from_view, decision_view
from agent_md.executions.sessions import Session as FoundSession
from agent_md.executions.sessions import SessionStatus
from agent_md.executions.states import TriggerKind
from agent_md.models.images import refuse_images
from agent_md.serialization import session_json, session_summary
from agent_md.webhooks.reach import check_reach
from agent_md.webhooks.targets import check_target

__all__ = ["router"]

_BY = "api"
_BEGIN_TURNS = ("user", "system")
_LOCATION = {"headers": {"Location": {"description": "The session's path.", "schema": {"type": "string"}}}}
_NO_UUID = {"model": Detail, "description": "The id is no UUID, or the body no JSON in UTF-8."}
_NO_CUSTOM_IDS = {"model": Detail, "description": "`server.allow_custom_ids` is off."}

_routes = APIRouter(prefix="/sessions", tags=["sessions"], route_class=StrictRoute)


@_routes.post(
    "",
    status_code=201,
    response_model=Session,
    response_model_exclude_unset=True,
    responses={201: _LOCATION, **documented(400, 404, 409, 413, 422, 503)},
)
async def create_session(place: Place, response: Response, body: CreateSession | None = None) -> dict[str, Any]:
    """Begins a session, under an id of its own."""
    return await _create(place, str(uuid.uuid4()), body or CreateSession(), response)


@_routes.put(
    "/{session_id}",
    status_code=201,
    response_model=Session,
    response_model_exclude_unset=True,
    responses={201: _LOCATION, **documented(404, 409, 413, 422, 503), 400: _NO_UUID, 405: _NO_CUSTOM_IDS},
)
async def create_session_as(
    place: Place, session_id: str, response: Response, body: CreateSession | None = None
) -> dict[str, Any]:
    """Begins a session under a UUID that the client chooses."""
    if not place.context.app.settings.server.allow_custom_ids:
        raise HTTPException(
            405, "clients do not choose the ids of sessions: server.allow_custom_ids is off", {"Allow": "GET, DELETE"}
        )
    known_as = uuid_of(session_id)
    if known_as is None:
        raise HTTPException(400, "the id of a session that a client chooses is a UUID; nothing was created")
    return await _create(place, known_as, body or CreateSession(), response)


@_routes.get("", response_model=list[SessionSummary], responses=documented(404, 422))
async def list_sessions(place: Place) -> list[dict[str, Any]]:
    """The sessions, newest first."""
    place.context.settle()
    sessions = await place.listed()
    totals = place.context.store.sessions.totals(agent=place.agent)
    keyed = [((session.agent, session.id), session) for session in sessions]
    return [session_summary(session, totals[key]) for key, session in keyed if key in totals]  # else deleted since


@_routes.get(
    "/{session_id}",
    response_model=Session,
    response_model_exclude_unset=True,
    responses=documented(404, 409, 422),
)
async def one_session(
    place: Place,
    session_id: str,
    request: Request,
    wait: Annotated[bool, Query(description="Whether to answer only when it is not `running` any more.")] = False,
    timeout: Annotated[float | None, Query(ge=0, allow_inf_nan=False, description="Seconds to wait at most.")] = None,
) -> dict[str, Any]:
    """One session: what its last turn came to, or what it waits for."""
    session = place.find(session_id)
    if wait:
        session = await while_running(place.context, session, timeout, request)
    return _shown(place, session)


@_routes.delete("/{session_id}", status_code=204, responses=documented(404, 409, 422))
async def delete_session(place: Place, session_id: str) -> None:
    """Deletes it; a turn in progress is cancelled, and what it asks is cancelled with it."""
    context, session = place.context, place.find(session_id)
    turns = context.store.sessions.delete(session.agent, session.id, by=_BY)
    context.hub.wake(frozenset(turns))
    await asyncio.gather(*(context.engine.close(turn) for turn in turns))


@_routes.get(
    "/{session_id}/messages",
    response_model=list[ChatMessage],
    response_model_exclude_unset=True,
    responses=documented(404, 409, 422),
)
async def messages(place: Place, session_id: str) -> list[dict[str, Any]]:
    """The whole conversation."""
    session = place.find(session_id)
    return [chat_message(stored) for stored in place.context.store.sessions.messages(session.agent, session.id)]


@_routes.get("/{session_id}/stream", response_class=StreamingResponse, responses=documented(404, 409, 422))
async def stream(
    place: Place, session_id: str, last_event_id: Annotated[str | None, Header()] = None
) -> EventSourceResponse:
    """Server-sent events of its turns: of the last one and those that come, or from `Last-Event-ID` on."""
    return sse_response(session_stream(place.context, place.find(session_id), last_event_id))


@_routes.post(
    "/{session_id}/messages",
    status_code=202,
    response_model=Moved,
    responses={202: _LOCATION, **documented(400, 404, 409, 413, 422)},
)
async def post_message(place: Place, session_id: str, body: PostMessage, response: Response) -> dict[str, Any]:
    """Begins a turn, and answers at once. A session takes one turn at a time."""
    context, session = place.context, place.find(session_id)
    _refuse_roles(place, [body])
    if body.role not in _BEGIN_TURNS:
        raise UsageError(f"a message of the role {body.role} begins no turn; give it in the `state` of a new session")
    hook = None if body.webhook is None else await _target(context, body.webhook)
    try:
        await context.aside(
            lambda: context.app.starter.start(
                session.agent,
                message=body.content,
                trigger=TriggerKind.API,
                session_id=session.id,
                session_must_exist=True,
                exclusive=True,
                chat_message=body.model_dump(),
                hook=hook,
                claimed=False,
            )
        )
    except (ConversationBusy, ConversationWaiting):
        raise _busy(place, session) from None
    context.hub.stored()
    response.headers["Location"] = place.path_of(session)
    return {"session_id": session.id, "status": "running"}


@_routes.post(
    "/{session_id}/resume",
    response_model=Moved,
    responses=documented(400, 404, 409, 413, 422),
)
async def resume(place: Place, session_id: str, body: Resume) -> dict[str, Any]:
    """Answers an interrupt. The first answer wins; the same answer again is taken again."""
    context, session = place.context, place.find(session_id)
    asked = _asked(place, session, body.interrupt_id)
    value = answer_from_view(asked, _call(place, asked), body.value)
    answer = await context.new_answer(asked, value, scopes=[GrantScope.SESSION])
    context.store.record_answers([answer], by=_BY)
    context.hub.stored()
    now = context.store.sessions.get(session.agent, session.id)
    return {"session_id": now.id, "status": str(now.status)}


async def _create(place: SessionScope, session_id: str, body: CreateSession, response: Response) -> dict[str, Any]:
    context = place.context
    _refuse_roles(place, body.state)
    agent = place.agent_of(body.agent)
    spec = await context.aside(lambda: context.app.starter.runnable_spec(agent))
    given = [message.model_dump() for message in body.state]
    refuse_images(spec.model, given)
    state = [stored_message(message, f"state:{session_id}:{number}") for number, message in enumerate(given)]
    state = context.app.assembly.redactor(spec).value(state)
    limit = context.app.settings.server.max_sessions
    session = context.store.sessions.create(spec.name, session_id, state=state, limit=limit)
    response.headers["Location"] = place.path_of(session)
    return session_json(session, ())


def _refuse_roles(place: SessionScope, given: Sequence[MessageBody]) -> None:
    trusted = {"user", *place.context.app.settings.server.trusted_roles}
    for message in given:
        if message.role not in trusted:
            raise UsageError(
                f"messages of the role {message.role} are not taken from clients, only those of "
                f"{', '.join(sorted(trusted))}; `server.trusted_roles` in config.yaml says which; nothing was changed"
            )


async def _target(context: ServerContext, webhook: Webhook) -> HookTarget:
    target = check_target(HookTarget(webhook.url, webhook.token, webhook.secret, webhook.include_messages))
    return await check_reach(target, context.app.settings.http.allow_hosts)


def _busy(place: SessionScope, session: FoundSession) -> SessionBusy:
    """Why the session takes no message, and what to do about it."""
    asked = place.context.store.sessions.open_requests(session.agent, session.id)
    interrupts = tuple((str(request.id), _view(place, request)["type"]) for request in asked)
    path = place.path_of(session)
    begin = f"the session {session.id} of {session.agent} takes no message now"
    if not interrupts:
        text = f"{begin}: its turn is running; GET {path}?wait=true answers when it ends or asks something"
    else:
        named = ", ".join(f"{interrupt_id} ({kind})" for interrupt_id, kind in interrupts)
        text = f"{begin}: it asks {named}; answer each with POST {path}/resume, or end the session with DELETE {path}"
    return SessionBusy(text, interrupts, tuple(dict.fromkeys(int(request.execution_id) for request in asked)))


def _view(place: SessionScope, request: HumanRequest) -> dict[str, Any]:
    return decision_view(request, _call(place, request))


def _shown(place: SessionScope, session: FoundSession) -> dict[str, Any]:
    sessions = place.context.store.sessions
    asked: list[HumanRequest] = []
    while session.status is SessionStatus.INTERRUPTED and not asked:
        asked = sessions.open_requests(session.agent, session.id)
        if not asked:  # another process took the last answer since
            session = sessions.get(session.agent, session.id)
    return session_json(session, [_view(place, request) for request in asked])


def _call(place: SessionScope, request: HumanRequest) -> Call:
    """The call that asks."""
    call = place.context.store.call(request.execution_id, request.position)
    assert call is not None, "a request is stored after its call"
    return call


def _asked(place: SessionScope, session: FoundSession, interrupt_id: str) -> HumanRequest:
    try:
        return place.context.store.sessions.request(session.agent, session.id, RequestId(interrupt_id))
    except UnknownRequest:
        if session.status is SessionStatus.INTERRUPTED:
            raise
        raise SessionNotInterrupted(
            f"the session {session.id} of {session.agent} is {session.status}, not interrupted, and has not asked "
            f"{interrupt_id!r}; nothing was answered"
        ) from None


router = APIRouter(route_class=StrictRoute)
router.include_router(_routes)
router.include_router(_routes, prefix="/agents/{name}", dependencies=[Depends(in_agent_path)])

"""Routes of executions: events, requests, answers, retraction, retry, cancellation."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query
from fastapi.responses import StreamingResponse
from fastapi.sse import EventSourceResponse
from pydantic import BeforeValidator

from agent_md.api.context import ANONYMOUS, Context
from agent_md.api.errors import documented
from agent_md.api.event_streams import execution_stream
from agent_md.api.request_bodies import NoBody
from agent_md.api.schemas import (
    CancelAnswer,
    EventEntry,
    ExecutionDetail,
    ExecutionSummary,
    PendingRequest,
    RefusedRun,
    RespondAnswer,
    RespondBody,
    RetractAnswer,
    RetryAnswer,
    SettleBody,
    StatusName,
    UnknownCall,
)
from agent_md.api.sse import sse_response
from agent_md.api.strict_body import StrictRoute, only_digits
from agent_md.errors import UnknownRequest
from agent_md.executions.answers import client_name
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import POSITION, Position
from agent_md.executions.settlement_note import checked_note
from agent_md.executions.states import Status, TriggerKind
from agent_md.runner.responding import not_shown
from agent_md.runner.retrying import calls_that_ran
from agent_md.serialization import (
    event_json,
    execution_detail,
    execution_json,
    refusal_json,
    retraction_json,
    unknown_call_json,
)

__all__ = ["router"]


_Id = Annotated[int, BeforeValidator(only_digits), Path(description="The execution's number.")]
_Position = Annotated[
    str, Path(description="The call's place: AI message and call in it, from 0.", pattern=POSITION, examples=["0.1"])
]
_Limit = Annotated[int, Query(ge=1, le=1000)]
_Offset = Annotated[int, Query(ge=0, le=2**62)]
_By = Annotated[str | None, Query(description="Who reads it; recorded as `http:NAME`.")]

router = APIRouter(tags=["executions"], route_class=StrictRoute)


@router.get("/executions", response_model=list[ExecutionSummary], responses=documented(422))
async def executions(
    context: Context,
    status: Annotated[StatusName | None, Query(description="`failed` is `error`, `cancelled` is `aborted`.")] = None,
    agent: str | None = None,
    session_id: str | None = None,
    unknown: Annotated[bool | None, Query(description="Whether calls may have run that nobody has settled.")] = None,
    limit: _Limit = 50,
    offset: _Offset = 0,
) -> list[dict[str, Any]]:
    """Executions, newest first."""
    found = context.store.executions(
        statuses=() if status is None else (_known_status(status),),
        agent=None if agent is None else context.names_like(agent),
        session_id=session_id,
        unknown=unknown,
        limit=limit,
        offset=offset,
    )
    return [execution_json(execution) for execution in found]


@router.get("/refusals", response_model=list[RefusedRun], responses=documented(422))
async def refusals(
    context: Context,
    agent: str | None = None,
    session_id: str | None = None,
    limit: _Limit = 50,
    offset: _Offset = 0,
) -> list[dict[str, Any]]:
    """Runs that were refused, for money or because their conversation waits; newest first. None of them is an
    execution."""
    agents = None if agent is None else {agent, *context.names_like(agent)}
    found = context.store.refusals(agents=agents, session_id=session_id, limit=limit, offset=offset)
    return [refusal_json(refusal) for refusal in found]


def _named(by: str | None) -> str:
    """Who a client says it is, as it is recorded."""
    return ANONYMOUS if by is None else client_name("http", by)


def _known_status(name: StatusName) -> Status:
    match name:
        case "failed":
            return Status.ERROR
        case "cancelled":
            return Status.ABORTED
        case _:
            return Status(name)


@router.get("/executions/{execution_id}", response_model=ExecutionDetail, responses=documented(404, 422))
async def one_execution(context: Context, execution_id: _Id, by: _By = None) -> dict[str, Any]:
    """One execution, with its final text and its open requests."""
    context.settle()
    execution = context.store.execution(ExecutionId(execution_id))
    shapes = await context.open_requests_json(execution, to=_named(by))
    return execution_detail(execution, shapes, context.store.calls(execution.id))


@router.get("/executions/{execution_id}/messages", response_model=list[EventEntry], responses=documented(404, 422))
async def messages(context: Context, execution_id: _Id) -> list[dict[str, Any]]:
    """Everything that happened in it, in order."""
    execution = context.store.execution(ExecutionId(execution_id))
    return [event_json(event) for event in context.store.events(execution.id)]


@router.get("/executions/{execution_id}/stream", response_class=StreamingResponse, responses=documented(404, 422))
async def stream(
    context: Context, execution_id: _Id, last_event_id: Annotated[str | None, Header()] = None
) -> EventSourceResponse:
    """Server-sent events of it: what was, what comes; `complete` is the last."""
    execution = context.store.execution(ExecutionId(execution_id))
    return sse_response(execution_stream(context, execution, last_event_id))


@router.get("/executions/{execution_id}/pending", response_model=PendingRequest, responses=documented(404, 422))
async def pending_of(context: Context, execution_id: _Id, by: _By = None) -> dict[str, Any]:
    """Its oldest open request; 404 when there is none."""
    context.settle()
    found = await context.open_requests_json(context.store.execution(ExecutionId(execution_id)), to=_named(by))
    if not found:
        raise UnknownRequest(f"execution {execution_id} has no open request")
    return found[0]


@router.get("/executions/{execution_id}/requests", response_model=list[PendingRequest], responses=documented(404, 422))
async def requests_of(context: Context, execution_id: _Id, by: _By = None) -> list[dict[str, Any]]:
    """All its requests, and those of executions below it, oldest first, those decided with their outcome."""
    context.settle()
    execution = context.store.execution(ExecutionId(execution_id))
    return await context.requests_json(
        context.store.requests(execution.id, family=True), under=execution, to=_named(by)
    )


@router.get("/pending", response_model=list[PendingRequest], responses=documented(422))
async def pending(context: Context, limit: _Limit = 100, offset: _Offset = 0, by: _By = None) -> list[dict[str, Any]]:
    """All open requests of all executions, oldest first."""
    context.settle()
    return await context.requests_json(context.store.open_requests(limit=limit, offset=offset), to=_named(by))


@router.post(
    "/executions/{execution_id}/respond",
    response_model=RespondAnswer,
    responses=documented(400, 404, 409, 413, 422),
)
async def respond(context: Context, execution_id: _Id, body: RespondBody) -> dict[str, Any]:
    """Answers a request. The first answer wins; the same answer again is taken again."""
    by = _named(body.by)
    execution = context.store.execution(ExecutionId(execution_id))
    request = context.app.responder.choose_request(execution, body.request_id)
    if body.request_id is None and (unseen := context.app.responder.unseen(execution, [request], by)):
        raise not_shown(execution, unseen, await context.requests_json(unseen, under=execution, to=by))
    answer = await context.new_answer(request, body.response)
    context.store.record_answers([answer], by=by)
    context.hub.stored()
    return {
        "status": "resuming",
        "execution_id": execution.id,
        "request_id": request.id,
        "message": request.message,
    }


@router.delete(
    "/executions/{execution_id}/requests/{request_id}/answer",
    response_model=RetractAnswer,
    responses=documented(404, 409, 422),
)
async def retract(
    context: Context,
    execution_id: _Id,
    request_id: str,
    by: Annotated[str | None, Query(description="Who retracts it; recorded as `http:NAME`.")] = None,
) -> dict[str, Any]:
    """Retracts a human's answer before its call acts on it, and asks again. The same again gives the first retraction."""
    name = _named(by)
    execution = context.store.execution(ExecutionId(execution_id))
    request = context.app.responder.choose_request(execution, request_id)
    retraction = context.store.retract(request.id, by=name)
    context.hub.stored()
    return retraction_json(execution.id, retraction)


@router.post(
    "/executions/{execution_id}/calls/{position}/settle",
    response_model=UnknownCall,
    responses=documented(400, 404, 409, 413, 422),
)
async def settle(context: Context, execution_id: _Id, position: _Position, body: SettleBody) -> dict[str, Any]:
    """Records what became of a call that may have run. The first to say so is kept; the same again is taken again."""
    execution = context.store.execution(ExecutionId(execution_id))
    at = Position.parse(position)
    context.store.settle_call(execution.id, at, ran=body.ran, note=checked_note(body.note), by=ANONYMOUS)
    call = context.store.call(execution.id, at)
    assert call is not None  # it was settled
    return unknown_call_json(call)


@router.post(
    "/executions/{execution_id}/retry", response_model=RetryAnswer, responses=documented(400, 404, 409, 413, 422)
)
async def retry(context: Context, execution_id: _Id, _body: NoBody | None = None) -> dict[str, Any]:
    """Begins a failed execution anew, with the message it was given, and answers at once."""
    failed = context.store.execution(ExecutionId(execution_id))
    execution = await context.aside(lambda: context.app.starter.retry(failed, trigger=TriggerKind.API, claimed=False))
    context.begun(execution)
    ran, may_have_run = calls_that_ran(context.store, failed)
    model = str(context.app.spec_of(execution).model)
    return {"execution_id": execution.id, "model": model, "ran": ran, "may_have_run": may_have_run}


@router.delete("/executions/{execution_id}", response_model=CancelAnswer, responses=documented(404, 422))
async def cancel(context: Context, execution_id: _Id) -> dict[str, Any]:
    """Aborts it: at once if it waits, as soon as its driver obeys if it runs; an ended one is left as it is."""
    execution = context.store.request_cancel(ExecutionId(execution_id), ANONYMOUS)
    if not execution.status.final:
        execution = await context.engine.close(execution.id)
    status = str(execution.status) if execution.status.final else "cancelling"
    return {"status": status, "execution_id": execution.id}

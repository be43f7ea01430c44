"""Converts errors to JSON responses: `{"detail": …}` with the status of `agent_md.error_codes` and additional fields."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from agent_md.api.schemas import Conflict, Detail, Invalid
from agent_md.error_codes import codes_of
from agent_md.errors import (
    AgentmdError,
    AnswerConflict,
    AnswerRetracted,
    ConversationWaiting,
    NotShown,
    SessionBusy,
    SettledOtherwise,
    SeveralOpen,
    SeveralSessions,
)
from agent_md.serialization import iso_time

__all__ = ["add_error_handlers", "documented"]

log = logging.getLogger(__name__)


def add_error_handlers(app: FastAPI) -> None:
    """Maps our errors to their statuses, and all others to 500 without internal details."""
    app.add_exception_handler(AgentmdError, _ours)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _unforeseen)


async def _ours(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, AgentmdError)
    status = codes_of(error).http
    if status == 500:
        log.error("a request failed", exc_info=error)
    headers = {"WWW-Authenticate": "Webhook-Signature"} if status == 401 else None
    return JSONResponse({"detail": _said(error), **_beside(error)}, status, headers)


def _said(error: AgentmdError) -> str:
    """Its text, with routes where that of commands has commands."""
    if not isinstance(error, ConversationWaiting):
        return str(error)
    first = f"/executions/{error.waiting[0]}"
    return (
        f"this conversation already waits for a human (execution {', '.join(map(str, error.waiting))}), and nothing was "
        f"started; GET {first}/pending shows what is asked, POST {first}/respond answers it, DELETE {first} ends it"
    )


def _beside(error: AgentmdError) -> dict[str, Any]:
    if isinstance(error, ConversationWaiting):
        return {"waiting": list(error.waiting)}
    if isinstance(error, SessionBusy):
        asked = [{"interrupt_id": interrupt_id, "type": kind} for interrupt_id, kind in error.interrupts]
        return {"interrupts": asked, "waiting": list(error.waiting)}
    if isinstance(error, SeveralOpen):
        return {"open": list(error.open)}
    if isinstance(error, NotShown):
        return {"open": list(error.open), "requests": list(error.shapes)}
    if isinstance(error, SeveralSessions):
        return {"agents": list(error.agents)}
    if isinstance(error, AnswerConflict):
        return _decided(error)
    if isinstance(error, SettledOtherwise):
        return {"ran": error.ran, "settled_by": error.settled_by, "settled_at": iso_time(error.settled_at)}
    return {}


def _decided(error: AnswerConflict) -> dict[str, Any]:
    decided = {
        "outcome": error.outcome,
        "answered_by": error.answered_by,
        "answered_at": iso_time(error.answered_at),
        "recorded_at": iso_time(error.recorded_at),
    }
    if isinstance(error, AnswerRetracted):
        decided |= {"retracted_by": error.retracted_by, "retracted_at": iso_time(error.retracted_at)}
        decided |= {"replaced_by": error.replaced_by}
    return decided


async def _invalid(_request: Request, error: Exception) -> JSONResponse:
    """FastAPI's list, without what was sent: that may be long, or nothing that JSON can say."""
    assert isinstance(error, RequestValidationError)
    return JSONResponse(
        {"detail": [{name: item[name] for name in ("loc", "msg", "type")} for item in error.errors()]}, 422
    )


async def _unforeseen(_request: Request, error: Exception) -> JSONResponse:
    log.error("a request failed", exc_info=error)
    return JSONResponse({"detail": f"this should not have happened ({type(error).__name__}); the log has more"}, 500)


_MEANINGS: dict[int, tuple[type[Detail | Invalid], str]] = {
    401: (Detail, "No key, or a wrong one; only on TCP."),
    404: (Detail, "There is no such thing."),
    409: (Conflict, "Something stands in the way; it is named."),
    413: (Detail, "The body is over 1 MiB."),
    400: (Detail, "The body is no JSON in UTF-8."),
    422: (Invalid, "The request cannot be taken; nothing was changed."),
    500: (Detail, "The server failed; the log has more."),
    503: (Detail, "There is no room; try again later."),
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of a route, for OpenAPI."""
    every = (*statuses, 401, 500)
    return {status: {"model": _MEANINGS[status][0], "description": _MEANINGS[status][1]} for status in every}

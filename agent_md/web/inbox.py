"""The inbox: what waits for people, one request in full, and the answer to it."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import replace
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from agent_md.errors import AnswerConflict, AnswerRefused
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request
from agent_md.executions.states import RequestKind
from agent_md.ports.store import NewAnswer
from agent_md.web.conversation import conversation_of
from agent_md.web.forms import Form, form_of
from agent_md.web.rendering import editable_json, render
from agent_md.web.request_view import entry_of, view_of
from agent_md.web.responses import edited_args, response_from
from agent_md.web.schema_forms import fields_of
from agent_md.web.site import Site, site_of
from agent_md.web.visitor import visitor_of
from agent_md.wording.request_text import decision_text

__all__ = ["routes"]

PAGE = 50
_MOST_PAGES = 10_000


async def inbox(request: HttpRequest) -> Response:
    """The open requests, those that expire first before the others."""
    site = site_of(request)
    site.context.settle()
    return render(request, "inbox.html", site.context, **_listing(request, site), detail=None)


def _listing(request: HttpRequest, site: Site, selected: str | None = None) -> dict[str, Any]:
    """One page of the list, and what was answered last."""
    number = _page_number(request.query_params.get("page"))
    found = site.context.store.open_requests(limit=PAGE + 1, offset=(number - 1) * PAGE, by_deadline=True)
    done = request.query_params.get("done")
    return {
        "entries": [entry_of(each) for each in found[:PAGE]],
        "selected": selected,
        "number": number,
        "has_more": len(found) > PAGE,
        "done": None if done is None else _done(site, RequestId(done)),
    }


def _page_number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and 0 < int(text[:6]) <= _MOST_PAGES else 1


def _done(site: Site, request_id: RequestId) -> str | None:
    """What became of a request that was answered just now."""
    request = site.context.store.request(request_id)
    return None if request.open else f"Execution {request.execution_id}: {decision_text(request)}"


async def one_request(request: HttpRequest) -> Response:
    """One request in full: it counts as shown to its visitor."""
    site = site_of(request)
    site.context.settle()
    asked = site.context.store.request(RequestId(request.path_params["request_id"]))
    return await _page(request, site, asked, Form({}))


async def _page(
    request: HttpRequest,
    site: Site,
    asked: Request,
    form: Form,
    *,
    status: int = 200,
    error: str = "",
    edited: tuple[Request, NewAnswer] | None = None,
) -> Response:
    """The page of a request, with what was typed before, and an error about that. `edited`: with other arguments, and the
    answer that approves them."""
    context = site.context
    context.store.showings.record([asked], visitor_of(request).by)
    drift = (await asyncio.to_thread(context.app.drift_of, [asked]))[asked.id]
    execution = context.store.execution(asked.execution_id)
    shown = asked if edited is None else edited[0]
    wants_conversation = request.query_params.get("conversation") == "1"
    detail = {
        "view": view_of(shown, execution, drift, original=asked),
        "form": form,
        "error": error,
        "edited_digest": None if edited is None else edited[1].digest or asked.digest,
        "edited_args": None if edited is None else editable_json(shown.tool_args),
        "args": form.text("args") or editable_json(shown.tool_args),
        "fields": fields_of(asked.response_schema) if asked.kind is RequestKind.CUSTOM else None,
        "conversation": conversation_of(context.store, execution) if wants_conversation else None,
    }
    return render(request, "inbox.html", context, status=status, **_listing(request, site, asked.id), detail=detail)


async def answer(request: HttpRequest) -> Response:
    """Records the answer that a form gives to the request that it showed; the next open request comes after it."""
    site, form, by = site_of(request), form_of(request), visitor_of(request).by
    site.context.settle()
    asked = site.context.store.request(RequestId(request.path_params["request_id"]))
    if not hmac.compare_digest(form.text("digest").encode(), asked.digest.encode()):
        text = "this form showed something else than what is asked; nothing was answered. Read what is asked now"
        return await _page(request, site, asked, form, status=409, error=text)
    try:
        if (edited := await _to_show(site, asked, form)) is not None:
            return await _page(request, site, asked, form, edited=edited)
        new = await site.context.new_answer(asked, response_from(asked, form))
        site.context.store.record_answers([new], by=by)
    except AnswerRefused as refused:
        return await _page(request, site, asked, form, status=422, error=str(refused))
    except AnswerConflict:
        decided = site.context.store.request(asked.id)
        text = f"your answer came too late: {decision_text(decided)}"
        return await _page(request, site, decided, form, status=409, error=text)
    site.context.hub.stored()
    return RedirectResponse(f"{_next_page(site)}?done={asked.id}", 303)


async def _to_show(site: Site, asked: Request, form: Form) -> tuple[Request, NewAnswer] | None:
    """The request with the arguments that were edited, if it has not been shown with exactly these and what they would do
    now. Raises AnswerRefused."""
    decision = form.text("decision")
    if asked.kind is not RequestKind.CONFIRM or decision not in ("approve", "show") or not asked.open:
        return None
    args = edited_args(form)
    if args is None:
        if decision == "show":
            raise AnswerRefused("the arguments are empty; write them as a JSON object")
        return None
    new = await site.context.new_answer(asked, {"approved": True, "args": args})
    if decision == "approve" and form.text("edited_digest") == (new.digest or asked.digest):
        return None
    execution = site.context.store.execution(asked.execution_id)
    shown = await site.context.aside(lambda: site.context.app.responder.edited(execution, asked, args))
    return replace(shown, message=asked.message), new


def _next_page(site: Site) -> str:
    following = site.context.store.open_requests(limit=1, by_deadline=True)
    return f"/ui/requests/{following[0].id}" if following else "/ui/"


routes = (
    Route("/", inbox),
    Route("/requests/{request_id}", one_request, methods=["GET"]),
    Route("/requests/{request_id}", answer, methods=["POST"]),
)

"""Converts requests to the interrupts of the sessions interface: an approval, questions, or a custom interrupt.

A request has one view: a confirmation of a call is a `tool_approval`, whatever a tool asks of a human is a
`user_input` with questions, and a custom request keeps its own type. What is answered to a view becomes the response
that the request itself takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_md.errors import AnswerRefused
from agent_md.executions.answers import check_json, validate_response
from agent_md.executions.calls import Call
from agent_md.executions.json_values import brief
from agent_md.executions.questions import Answers, read_answers
from agent_md.executions.requests import Preview, Request
from agent_md.executions.states import RequestKind, RequestSource

__all__ = ["answer_from_view", "decision_view", "interrupt_view", "preview_json", "unknown_call_view"]

_ASKING_TOOL = "ask_user"
"""Confirmations that it asks are questions of their own, not about a call."""
_YES, _NO = "Yes", "No"
_APPROVAL, _INPUT = "tool_approval", "user_input"


def interrupt_view(request: Request, call: Call) -> dict[str, Any]:
    """`{"interrupt_id", "type", "payload"}` of a request; `call` is the one at its position.

    The header of a question that has none of its own is `Input`, `Choice` or `Confirm`.
    """
    if request.kind is RequestKind.CUSTOM:
        payload = request.payload or {}
        own = payload.get("type")
        return _view(request, own if isinstance(own, str) else "custom", payload)
    if not _is_approval(request, call):
        return _view(request, _INPUT, {"type": _INPUT, "questions": list(_questions(request))})
    payload = {"type": _APPROVAL, **_call_shown(request, call)}
    if request.source is RequestSource.TOOL:
        payload["message"] = request.message
    return _view(request, _APPROVAL, payload)


def unknown_call_view(call: Call) -> dict[str, Any]:
    """A call that may have run: its place, what it was to do, and what the model was told of it."""
    return {
        "position": str(call.position),
        "tool_name": call.tool,
        "tool_args": call.args,
        "result": call.result,
    }


def decision_view(request: Request, call: Call) -> dict[str, Any]:
    """The view with additional fields for the decision: a `preview` of the effect, which may contain file contents; for
    a guarded call the `rule` that asks, the `digest`, `editable` (`args` may come with an approval), and the
    `proposed_rule` for a grant; for a called agent the `path` to it; for a custom request its `response_schema`, and `kind` = `custom` if its own type
    says something else."""
    view = interrupt_view(request, call)
    if request.path:
        view["path"] = [{"execution_id": step.execution_id, "agent_id": step.agent} for step in request.path]
    if request.source is RequestSource.GATE:
        view |= {"rule": request.rule, "digest": request.digest, "editable": True}
    if request.preview is not None:
        view["preview"] = preview_json(request.preview)
    if request.offer is not None:
        view["proposed_rule"] = request.offer.rule
    if request.kind is RequestKind.CUSTOM:
        if view["type"] in (_APPROVAL, _INPUT):
            view["kind"] = str(RequestKind.CUSTOM)
        if request.response_schema is not None:
            view["response_schema"] = request.response_schema
    return view


def preview_json(preview: Preview) -> dict[str, Any]:
    """`{"resolved", "diff"?, "size"?, "type"?}`; what it lacks is left out, except `resolved`."""
    optional = {"diff": preview.diff, "size": preview.size, "type": preview.type}
    return {"resolved": preview.resolved} | {key: value for key, value in optional.items() if value is not None}


def answer_from_view(request: Request, call: Call, value: Any) -> Any:
    """Converts the value given to the view of a request to the response of that request.

    Raises AnswerRefused for a value that the view's type does not accept. `validate_response` applies the schema of a
    custom request."""
    check_json(value)
    if request.kind is RequestKind.CUSTOM:
        return value
    response = value
    if not _is_approval(request, call):
        response = _response(request, read_answers(_questions(request), value))
    validate_response(request, response)
    return response


def _view(request: Request, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"interrupt_id": request.id, "type": kind, "payload": payload}


def _is_approval(request: Request, call: Call) -> bool:
    if request.kind is not RequestKind.CONFIRM:
        return False
    return request.source is RequestSource.GATE or call.tool != _ASKING_TOOL


def _call_shown(request: Request, call: Call) -> dict[str, Any]:
    """The call that a confirmation is about: the one it names, else the one that asks."""
    if request.tool_name is not None:
        return {"tool_name": request.tool_name, "tool_args": request.tool_args or {}}
    return {"tool_name": call.tool, "tool_args": call.args if request.tool_args is None else request.tool_args}


def _questions(request: Request) -> Sequence[dict[str, Any]]:
    if request.kind is RequestKind.QUESTIONS:
        return request.questions or ()
    labels = (_YES, _NO) if request.kind is RequestKind.CONFIRM else request.options or ()
    return [
        {
            "question": request.message,
            "header": request.kind.capitalize(),
            "multiSelect": bool(request.multi),
            "options": [{"label": label, "description": ""} for label in labels],
        }
    ]


def _response(request: Request, answers: Answers) -> Any:
    if request.kind is RequestKind.QUESTIONS:
        return {"answers": answers}
    answer = answers[request.message]
    if request.kind is RequestKind.INPUT:
        return {"text": answer}
    if request.kind is RequestKind.CHOICE:
        return {"selected": [answer] if isinstance(answer, str) else answer}
    if answer not in (_YES, _NO):
        raise AnswerRefused(f"the answer to {brief(request.message)} is {brief(answer)}, expected {_YES} or {_NO}")
    return {"approved": answer == _YES}

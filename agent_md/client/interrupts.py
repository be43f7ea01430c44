"""Converts interrupts of the sessions interface to requests that the terminal can ask.

A `tool_approval` is a confirmation, a `user_input` structured questions; whatever else it is, or is not quite, is shown
as it came and takes any JSON value. The response to such a request is the value that the interrupt takes.
"""

from __future__ import annotations

import json
from typing import Any

from agent_md.client.sessions import Interrupt
from agent_md.executions.grants import GrantOffer
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.requests import PathStep, Preview, Request
from agent_md.executions.states import RequestKind, RequestSource

__all__ = ["as_request"]

_KNOWN = ("type", "tool_name", "tool_args", "message")


def as_request(interrupt: Interrupt, agent: str) -> Request:
    """The interrupt as a request; what an interrupt does not say (the execution, the call, times) is nothing."""
    content: dict[str, Any] | None = None
    if interrupt.kind == "custom":
        content = None
    elif interrupt.type == "tool_approval":
        content = _approval(interrupt.payload)
    elif interrupt.type == "user_input":
        content = _questions(interrupt.payload)
    return Request(
        id=RequestId(str(interrupt.id)),
        position=Position(0, 0),
        digest=interrupt.digest if isinstance(interrupt.digest, str) else "",
        execution_id=ExecutionId(0),
        agent=agent,
        created_at=0.0,
        path=_path(interrupt.path),
        preview=_preview(interrupt.preview),
        offer=GrantOffer(interrupt.proposed_rule, "") if isinstance(interrupt.proposed_rule, str) else None,
        **(content or _custom(interrupt)),
    )


def _path(given: Any) -> tuple[PathStep, ...]:
    """The path to the agent that asks; empty if it is not known."""
    steps = given if isinstance(given, list) else []
    names = [step.get("agent_id") for step in steps if isinstance(step, dict)]
    return tuple(PathStep(ExecutionId(0), name) for name in names if isinstance(name, str))


def _preview(given: Any) -> Preview | None:
    """The known fields of a preview."""
    if not isinstance(given, dict):
        return None
    texts = {name: given[name] for name in ("resolved", "diff", "type") if isinstance(given.get(name), str)}
    size = given.get("size")
    return Preview(**texts, size=size if isinstance(size, int) else None)


def _approval(payload: Any) -> dict[str, Any] | None:
    """A confirmation of a call. What else the server says of the call is part of the question: nothing is hidden."""
    if not isinstance(payload, dict):
        return None
    name, args, message = payload.get("tool_name"), payload.get("tool_args"), payload.get("message")
    if not isinstance(name, str) or not isinstance(args, dict | None) or not isinstance(message, str | None):
        return None
    more = {key: value for key, value in payload.items() if key not in _KNOWN and value is not None}
    if more:
        message = f"{message or f'Confirm {name}'}\n{json.dumps(more, ensure_ascii=False, indent=2)}"
    return {
        "kind": RequestKind.CONFIRM,
        "source": RequestSource.GATE if message is None else RequestSource.TOOL,
        "message": message or "",
        "tool_name": name,
        "tool_args": args or {},
    }


def _questions(payload: Any) -> dict[str, Any] | None:
    """Structured questions, however many; None if one has no text of its own or an option has no label."""
    given = payload.get("questions") if isinstance(payload, dict) else None
    if not isinstance(given, list) or not given:
        return None
    questions = [_question(item) for item in given]
    texts = {question["question"] for question in questions if question is not None}
    if len(texts) < len(questions):
        return None
    return {
        "kind": RequestKind.QUESTIONS,
        "source": RequestSource.TOOL,
        "message": "",
        "questions": tuple(questions),
    }


def _question(given: Any) -> dict[str, Any] | None:
    if not isinstance(given, dict) or not isinstance(given.get("question"), str):
        return None
    options = given.get("options") or []
    if not isinstance(options, list) or not all(map(_is_option, options)):
        return None
    header, multi = given.get("header"), given.get("multiSelect")
    if not isinstance(header, str | None) or not isinstance(multi, bool | None):
        return None
    return {"question": given["question"], "header": header, "multiSelect": bool(multi), "options": options}


def _is_option(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and isinstance(given.get("label"), str)
        and all(isinstance(given.get(name), str | None) for name in ("description", "markdown"))
    )


def _custom(interrupt: Interrupt) -> dict[str, Any]:
    payload = interrupt.payload
    return {
        "kind": RequestKind.CUSTOM,
        "source": RequestSource.TOOL,
        "message": f"{interrupt.type} request",
        "payload": payload if isinstance(payload, dict) else {"payload": payload},
        "response_schema": interrupt.response_schema if isinstance(interrupt.response_schema, dict) else None,
    }

"""Converts the form of a request to a response, as clients send them."""

from __future__ import annotations

import json
from typing import Any, assert_never

from agent_md.errors import AnswerRefused
from agent_md.executions.json_values import parse_strictly
from agent_md.executions.requests import Request
from agent_md.executions.states import RequestKind
from agent_md.web.forms import Form
from agent_md.web.schema_forms import fields_of, value_from

__all__ = ["edited_args", "response_from"]

_OTHER = "other"


def response_from(request: Request, form: Form) -> Any:
    """The response that the form gives. Raises AnswerRefused for a form that is not filled in as it must be; whether the
    response fits the request is checked with it."""
    match request.kind:
        case RequestKind.CONFIRM:
            return _confirmation(form)
        case RequestKind.INPUT:
            return {"text": form.text("text")}
        case RequestKind.CHOICE:
            options = request.options or ()
            return {"selected": [_picked(options, text) for text in form.texts("option")]}
        case RequestKind.QUESTIONS:
            questions = enumerate(request.questions or ())
            return {"answers": {question["question"]: _answer(question, n, form) for n, question in questions}}
        case RequestKind.CUSTOM:
            return _custom(request, form)
        case unknown:
            assert_never(unknown)


def edited_args(form: Form) -> dict[str, Any] | None:
    """The edited arguments in the form, None if it has none. Raises AnswerRefused naming the place in the JSON."""
    text = form.text("args")
    if not text.strip():
        return None
    args = _json(text, "the arguments")
    if not isinstance(args, dict):
        raise AnswerRefused('the arguments are no JSON object such as {"path": "a.txt"}')
    return args


def _confirmation(form: Form) -> dict[str, Any]:
    match form.text("decision"):
        case "approve":
            args = edited_args(form)
            return {"approved": True} if args is None else {"approved": True, "args": args}
        case "deny":
            reason = form.text("reason").strip()
            return {"approved": False, "reason": reason} if reason else {"approved": False}
        case _:
            raise AnswerRefused("choose Approve or Deny")


def _picked(options: tuple[str, ...], text: str) -> str:
    if not text.isdecimal() or len(text) > 9 or int(text) >= len(options):
        raise AnswerRefused("choose an option of the list")
    return options[int(text)]


def _answer(question: dict[str, Any], number: int, form: Form) -> str | list[str]:
    """The labels that were picked, and the text of one's own where that was."""
    labels = tuple(option["label"] for option in question.get("options") or ())
    own = form.text(f"own-{number}")
    if not labels:
        return own
    answers = []
    for text in form.texts(f"answer-{number}"):
        if text == _OTHER:
            if not own.strip():
                raise AnswerRefused(f"{question['question']}: write a text of your own, or pick an option")
            answers.append(own)
        else:
            answers.append(_picked(labels, text))
    if not answers and own.strip():
        answers = [own]
    if not answers:
        raise AnswerRefused(f"{question['question']}: pick an option")
    return answers if question.get("multiSelect") else answers[0]


def _custom(request: Request, form: Form) -> Any:
    fields = fields_of(request.response_schema)
    if fields is not None and form.text("decision") != "json":
        return value_from(fields, form)
    return _json(form.text("json"), "the answer")


def _json(text: str, what: str) -> Any:
    try:
        return parse_strictly(text)
    except json.JSONDecodeError as error:
        raise AnswerRefused(f"{what}: no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise AnswerRefused(f"{what}: {error}") from None

"""What a response must look like to count, and what the model is told of a decision."""

from __future__ import annotations

from typing import Any

from agent_md.errors import AnswerRefused
from agent_md.executions.json_values import MAX_DEPTH, has_no_json_number, is_too_deep
from agent_md.executions.model import Answer, Outcome, Request, RequestKind, RequestSource
from agent_md.executions.schemas import check_answer

__all__ = ["DENIED", "denial_text", "validate_response"]

DENIED = "Action denied by user"


def validate_response(request: Request, response: Any) -> tuple[Outcome, Any]:
    """The outcome and the normalised value of a response. Raises AnswerRefused saying what is expected.

    The value is what is stored and compared: equal values are the same answer. Edited arguments of a confirm are only
    checked for their shape here; whether the tool takes them is for the caller.
    """
    if is_too_deep(response):
        raise AnswerRefused(f"the answer is nested deeper than {MAX_DEPTH}; nothing was answered")
    if has_no_json_number(response):
        raise AnswerRefused(
            "the answer has a number that is not finite, which JSON does not have; nothing was answered"
        )
    match request.kind:
        case RequestKind.CONFIRM:
            return _confirm(request, response)
        case RequestKind.INPUT:
            return Outcome.ANSWERED, _input(response)
        case RequestKind.CHOICE:
            return Outcome.ANSWERED, _choice(request, response)
        case RequestKind.QUESTIONS:
            return Outcome.ANSWERED, _questions(request, response)
        case RequestKind.CUSTOM:
            return Outcome.ANSWERED, _custom(request, response)


def denial_text(answer: Answer) -> str:
    """What the model is told of a request that was not granted, in the words clients know."""
    if answer.outcome is Outcome.EXPIRED:
        return f"{DENIED} (timeout)"
    if answer.outcome is Outcome.CANCELLED:
        return "Not executed: the execution was cancelled"
    reason = answer.value.get("reason") if isinstance(answer.value, dict) else None
    return f"{DENIED}: {reason}" if reason else DENIED


def _mapping(response: Any, required: str, allowed: frozenset[str], example: str) -> dict[str, Any]:
    if not isinstance(response, dict):
        raise AnswerRefused(f"the answer is {_shown(response)}, expected an object such as {example}")
    if required not in response:
        raise AnswerRefused(f'the answer has no "{required}", expected an object such as {example}')
    if unknown := sorted(str(key) for key in response if key not in allowed):
        raise AnswerRefused(f"the answer has unknown keys: {', '.join(unknown)}; expected an object such as {example}")
    return response


def _confirm(request: Request, response: Any) -> tuple[Outcome, Any]:
    gate = request.source is RequestSource.GATE
    allowed = frozenset({"approved", "reason", "args"} if gate else {"approved", "reason"})
    data = _mapping(response, "approved", allowed, '{"approved": true}')
    if not isinstance(data["approved"], bool):
        raise AnswerRefused(f'"approved" is {_shown(data["approved"])}, expected exactly true or false')
    value: dict[str, Any] = {"approved": data["approved"]}
    if (reason := data.get("reason")) is not None:
        if not isinstance(reason, str):
            raise AnswerRefused(f'"reason" is {_shown(reason)}, expected a text')
        if reason:
            value["reason"] = reason
    if (args := data.get("args")) is not None:
        if not isinstance(args, dict):
            raise AnswerRefused(f'"args" is {_shown(args)}, expected an object with the arguments of the call')
        if not data["approved"]:
            raise AnswerRefused('"args" edits a call that is approved; it cannot come with "approved": false')
        value["args"] = args
    return (Outcome.APPROVED if data["approved"] else Outcome.DENIED), value


def _input(response: Any) -> Any:
    data = _mapping(response, "text", frozenset({"text"}), '{"text": "…"}')
    if not isinstance(data["text"], str):
        raise AnswerRefused(f'"text" is {_shown(data["text"])}, expected a text')
    return {"text": data["text"]}


def _choice(request: Request, response: Any) -> Any:
    data = _mapping(response, "selected", frozenset({"selected"}), '{"selected": ["…"]}')
    selected = data["selected"]
    if not isinstance(selected, list) or not all(isinstance(item, str) for item in selected):
        raise AnswerRefused(f'"selected" is {_shown(selected)}, expected a list of options')
    options = request.options or ()
    if wrong := [item for item in selected if item not in options]:
        raise AnswerRefused(f"{_shown(wrong[0])} is not an option; the options are: {', '.join(options)}")
    if len(set(selected)) != len(selected):
        raise AnswerRefused("an option is selected twice")
    if not selected:
        raise AnswerRefused(f"no option is selected; the options are: {', '.join(options)}")
    if len(selected) > 1 and not request.multi:
        raise AnswerRefused(f"{len(selected)} options are selected, exactly one is allowed")
    return {"selected": [option for option in options if option in selected]}


def _questions(request: Request, response: Any) -> Any:
    data = _mapping(response, "answers", frozenset({"answers"}), '{"answers": {"question": "…"}}')
    answers = data["answers"]
    if not isinstance(answers, dict):
        raise AnswerRefused(f'"answers" is {_shown(answers)}, expected an object from question to answer')
    questions = {question["question"]: question for question in request.questions or ()}
    if unknown := [key for key in answers if key not in questions]:
        raise AnswerRefused(f"{_shown(unknown[0])} is not one of the questions")
    for text, question in questions.items():
        if text not in answers:
            raise AnswerRefused(f"the question {_shown(text)} has no answer")
        _check_question_answer(text, answers[text], multi=bool(question.get("multiSelect")))
    return {"answers": {text: answers[text] for text in questions}}


def _check_question_answer(question: str, answer: Any, *, multi: bool) -> None:
    if isinstance(answer, str):
        return
    if not isinstance(answer, list) or not answer or not all(isinstance(item, str) for item in answer):
        raise AnswerRefused(f"the answer to {_shown(question)} is {_shown(answer)}, expected a text")
    if not multi:
        raise AnswerRefused(f"the question {_shown(question)} takes one answer, not a list")


def _custom(request: Request, response: Any) -> Any:
    if request.response_schema is not None:
        check_answer(request.response_schema, response)
    return response


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"

"""Validates responses to requests, and creates the texts about decisions for the model."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from agent_md.errors import AnswerRefused
from agent_md.executions.grants import DEFAULT_UNTIL, GrantScope
from agent_md.executions.json_schema import check_answer
from agent_md.executions.json_values import MAX_DEPTH, brief, has_no_json_number, is_too_deep
from agent_md.executions.questions import read_answers
from agent_md.executions.requests import Answer, Request
from agent_md.executions.states import Outcome, RequestKind, RequestSource

__all__ = [
    "DENIED",
    "POLICY",
    "SCRIPT",
    "check_json",
    "client_name",
    "denial_text",
    "given_by_human",
    "same_answer",
    "validate_response",
    "without_shown_args",
]

DENIED = "Action denied by user"
_DENIED_BY_POLICY = "Action denied by policy"
POLICY = "policy"
"""Who denies where nobody may be asked."""
SCRIPT = "script"
"""Who answers from the script of an agent's model."""

_OURS = frozenset(
    (
        "agent",
        "agentmd",
        "api",
        "chat",
        "cli",
        "http",
        "policy",
        "python",
        "script",
        "server",
        "system",
        "timeout",
        "web",
        "webhook",
    )
)
"""Who answers for agentmd itself, and the channels that stand before the names of others."""


def validate_response(request: Request, response: Any) -> tuple[Outcome, Any]:
    """The outcome and the normalised value of a response. Raises AnswerRefused with the expected form.

    The value is stored and compared: equal values are the same answer. Of edited arguments and of `remember`, only the
    form is checked here; the caller checks the rest."""
    check_json(response)
    match request.kind:
        case RequestKind.CONFIRM:
            return _confirm(request, response)
        case RequestKind.INPUT:
            return Outcome.ANSWERED, _input(response)
        case RequestKind.CHOICE:
            return Outcome.ANSWERED, _choice(request, response)
        case RequestKind.QUESTIONS:
            return Outcome.ANSWERED, {"answers": read_answers(request.questions or (), response)}
        case RequestKind.CUSTOM:
            return Outcome.ANSWERED, _custom(request, response)


def without_shown_args(request: Request, value: Any) -> Any:
    """The value of an answer, without edited arguments that are the ones that were shown: a plain approval."""
    if request.kind is not RequestKind.CONFIRM or not isinstance(value, dict) or "args" not in value:
        return value
    if _canonical(value["args"]) != _canonical(request.tool_args):
        return value
    return {name: kept for name, kept in value.items() if name != "args"}


def same_answer(request: Request, given: Answer, outcome: Outcome, value: Any) -> bool:
    """Whether a validated answer is the one that was given: the same decision, with the same effective arguments, and the
    same reason. Values are compared as JSON, where 1 and true differ."""
    shown = (_canonical(without_shown_args(request, each)) for each in (given.value, value))
    return given.outcome is outcome and len(set(shown)) == 1


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def check_json(response: Any) -> None:
    """Raises AnswerRefused for a value that is nested too deeply, or has a number that JSON does not have."""
    if is_too_deep(response):
        raise AnswerRefused(f"the answer is nested deeper than {MAX_DEPTH}; nothing was answered")
    if has_no_json_number(response):
        raise AnswerRefused(
            "the answer has a number that is not finite, which JSON does not have; nothing was answered"
        )


def client_name(channel: str, name: str) -> str:
    """Who answered, as it is recorded for a client that came by `channel` and calls itself `name`: `http:ann`.

    Raises AnswerRefused for a name that could be read as one of agentmd's own, such as `timeout` or `cli:ann`."""
    first = unicodedata.normalize("NFKC", name).partition(":")[0].casefold()
    plain = "".join(char for char in first if char.isalnum())
    if not name.strip():
        raise AnswerRefused("`by` is empty; say who answers, or leave it out. Nothing was answered")
    if plain in _OURS:
        raise AnswerRefused(
            f"`by` is {brief(name)}, and {plain!r} names agentmd's own answers and channels; give the name of the person "
            f"alone, which is recorded as {channel}:NAME. Nothing was answered"
        )
    return f"{channel}:{name}"


def given_by_human(answer: Answer) -> bool:
    """Whether a human answered, and not a deadline, an end, a policy or a script."""
    machine = answer.answered_by in (POLICY, SCRIPT)
    return answer.outcome not in (Outcome.EXPIRED, Outcome.CANCELLED) and not machine


def denial_text(answer: Answer) -> str:
    """The text for the model about a request that was not granted, in the words that clients know."""
    if answer.outcome is Outcome.EXPIRED:
        return f"{DENIED} (timeout)"
    if answer.outcome is Outcome.CANCELLED:
        return "Not executed: the execution was cancelled"
    if answer.answered_by == POLICY:
        return f"{_DENIED_BY_POLICY}: nobody was asked"
    reason = answer.value.get("reason") if isinstance(answer.value, dict) else None
    return f"{DENIED}: {reason}" if reason else DENIED


def _mapping(response: Any, required: str, allowed: frozenset[str], example: str) -> dict[str, Any]:
    if not isinstance(response, dict):
        raise AnswerRefused(f"the answer is {brief(response)}, expected an object such as {example}")
    if required not in response:
        raise AnswerRefused(f'the answer has no "{required}", expected an object such as {example}')
    if unknown := sorted(str(key) for key in response if key not in allowed):
        raise AnswerRefused(f"the answer has unknown keys: {', '.join(unknown)}; expected an object such as {example}")
    return response


def _confirm(request: Request, response: Any) -> tuple[Outcome, Any]:
    gate = request.source is RequestSource.GATE
    allowed = frozenset({"approved", "reason", "args", "remember"} if gate else {"approved", "reason"})
    data = _mapping(response, "approved", allowed, '{"approved": true}')
    if not isinstance(data["approved"], bool):
        raise AnswerRefused(f'"approved" is {brief(data["approved"])}, expected exactly true or false')
    value: dict[str, Any] = {"approved": data["approved"]}
    if (reason := data.get("reason")) is not None:
        if not isinstance(reason, str):
            raise AnswerRefused(f'"reason" is {brief(reason)}, expected a text')
        if reason:
            value["reason"] = reason
    if (args := data.get("args")) is not None:
        if not isinstance(args, dict):
            raise AnswerRefused(f'"args" is {brief(args)}, expected an object with the arguments of the call')
        if not data["approved"]:
            raise AnswerRefused('"args" edits a call that is approved; it cannot come with "approved": false')
        value["args"] = args
    if (remember := data.get("remember")) is not None:
        value["remember"] = _remember(request, value, remember)
    return (Outcome.APPROVED if data["approved"] else Outcome.DENIED), value


def _remember(request: Request, value: dict[str, Any], remember: Any) -> dict[str, str]:
    """The `remember` of a response, as it was sent; the caller adds defaults and checks the rule."""
    example = f'{{"rule": "…", "scope": "{GrantScope.EXECUTION}", "until": "{DEFAULT_UNTIL}"}}'
    if not isinstance(remember, dict) or not all(isinstance(item, str) for item in remember.values()):
        raise AnswerRefused(f'"remember" is {brief(remember)}, expected an object of texts such as {example}')
    if unknown := sorted(brief(key) for key in remember if key not in ("rule", "scope", "until")):
        raise AnswerRefused(f'"remember" has unknown keys: {", ".join(unknown)}; expected an object such as {example}')
    if not value["approved"]:
        raise AnswerRefused('"remember" allows calls from now on; it cannot come with "approved": false')
    if "args" in value:
        raise AnswerRefused('"remember" is about the call that was shown; it cannot come with edited "args"')
    if request.offer is None:
        raise AnswerRefused(
            "calls like this one cannot be allowed from now on: no rule says exactly this call. "
            "Approve it alone, or put a rule under auto_approve in the agent file"
        )
    if (scope := remember.get("scope", GrantScope.EXECUTION)) not in tuple(GrantScope):
        raise AnswerRefused(f'"scope" is {brief(scope)}, expected one of: {", ".join(GrantScope)}')
    return remember


def _input(response: Any) -> Any:
    data = _mapping(response, "text", frozenset({"text"}), '{"text": "…"}')
    if not isinstance(data["text"], str):
        raise AnswerRefused(f'"text" is {brief(data["text"])}, expected a text')
    return {"text": data["text"]}


def _choice(request: Request, response: Any) -> Any:
    data = _mapping(response, "selected", frozenset({"selected"}), '{"selected": ["…"]}')
    selected = data["selected"]
    if not isinstance(selected, list) or not all(isinstance(item, str) for item in selected):
        raise AnswerRefused(f'"selected" is {brief(selected)}, expected a list of options')
    options = request.options or ()
    if wrong := [item for item in selected if item not in options]:
        raise AnswerRefused(f"{brief(wrong[0])} is not an option; the options are: {', '.join(options)}")
    if len(set(selected)) != len(selected):
        raise AnswerRefused("an option is selected twice")
    if not selected:
        raise AnswerRefused(f"no option is selected; the options are: {', '.join(options)}")
    if len(selected) > 1 and not request.multi:
        raise AnswerRefused(f"{len(selected)} options are selected, exactly one is allowed")
    return {"selected": [option for option in options if option in selected]}


def _custom(request: Request, response: Any) -> Any:
    if request.response_schema is not None:
        check_answer(request.response_schema, response)
    return response

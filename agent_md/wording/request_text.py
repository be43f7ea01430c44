"""A request on one line: its question, its decision, what has drifted."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, assert_never

from agent_md.executions.grants import GrantScope
from agent_md.executions.requests import Answer, Request
from agent_md.executions.states import Drift, Outcome, RequestKind, RequestSource
from agent_md.visible_text import one_line, visible
from agent_md.wording.call_text import call_line, shown_json

__all__ = [
    "asked_by",
    "decision_text",
    "drift_name",
    "drift_text",
    "on_one_line",
    "remaining",
    "repeat_reason",
    "summary",
    "unasked",
]


def summary(request: Request) -> str:
    """The request on one line, visible: also the payload of a custom one, and the call that a tool asks about. Long texts
    in the arguments of a call are named by their size; nothing else is shortened."""
    return on_one_line(request, shown_json)


def asked_by(request: Request) -> str:
    """The prefix of a question that a called agent asks, `coordinator > helper: `; empty for a root execution."""
    return f"{one_line(' > '.join(step.agent for step in request.path))}: " if request.path else ""


def unasked(request: Request) -> str:
    """A request that a tool raised where nobody can be asked, on one line: all that an answer is chosen from."""
    options = request.options or ()
    if request.kind is RequestKind.QUESTIONS:
        return " / ".join(
            f"{one_line(question['question'])}{_choices([option['label'] for option in question.get('options') or []])}"
            for question in request.questions or ()
        )
    wanted = "" if request.response_schema is None else f" (must fit {shown_json(request.response_schema)})"
    return f"{summary(request)}{_choices(options)}{wanted}"


def on_one_line(request: Request, shown: Callable[[Any], str]) -> str:
    """As `summary`, with payloads and arguments as `shown` writes them."""
    if request.source is RequestSource.GATE and request.tool_name is not None:
        return f"Confirm {call_line(request.tool_name, request.tool_args or {}, request.preview)}"
    if request.kind is RequestKind.QUESTIONS and request.questions:
        return one_line(" / ".join(question["question"] for question in request.questions))
    message = one_line(request.message)
    if request.kind is RequestKind.CONFIRM and request.tool_name is not None:
        return f"{message} ({call_line(request.tool_name, request.tool_args or {})})"
    payload = _beside_message(request)
    return f"{message} {shown(payload)}" if payload else message


def _beside_message(request: Request) -> dict[str, Any]:
    """The payload of a custom request without the text that its message repeats."""
    payload = dict(request.payload or {})
    for name in ("message", "prompt", "question"):
        if payload.get(name) == request.message:
            del payload[name]
            break
    return payload


def _choices(options: Sequence[str]) -> str:
    return f" [{one_line(' | '.join(options))}]" if options else ""


def repeat_reason(request: Request) -> str:
    """What is new about a question that was asked before, visible; "" of one that was not."""
    if request.replaces is not None:
        return "the answer was retracted"
    if request.source is not RequestSource.GATE or not request.occurrence:
        return ""
    action = f"Confirm {request.tool_name} {json.dumps(request.tool_args, ensure_ascii=False)}"
    return one_line(request.message.removeprefix(action).strip(" ()"))  # the message has it behind the call


def decision_text(request: Request) -> str:
    """How a request was decided and by whom, on one line: `approved by cli:ann`, `denied by api: not today`. If that was
    retracted, it is how it was decided before."""
    answer = request.given
    if answer is None:
        return "still open"
    by = one_line(answer.answered_by)
    match answer.outcome:
        case Outcome.APPROVED:
            edited, reason = answer.value.get("args"), answer.value.get("reason")
            how = f" with edited arguments {shown_json(edited)}" if edited is not None else ""
            return f"approved by {by}{how}{_remembered(answer)}" + (f": {_prose(reason)}" if reason else "")
        case Outcome.DENIED:
            reason = (answer.value or {}).get("reason")  # a policy denies without a value what is no confirmation
            return f"denied by {by}" + (f": {_prose(reason)}" if reason else "")
        case Outcome.ANSWERED:
            return f"answered by {by}: {_answered(request.kind, answer)}"
        case Outcome.EXPIRED:
            return "expired, nobody answered in time"
        case Outcome.CANCELLED:
            return f"cancelled by {by}"
        case unknown:
            assert_never(unknown)


def _remembered(answer: Answer) -> str:
    """What else was allowed with an approval, where, and for how long."""
    if (remember := answer.value.get("remember")) is None:
        return ""
    where = _GRANTED_IN[GrantScope(remember["scope"])]
    end = "without an end" if remember["until"] == "never" else one_line(remember["until"])
    return f" and {one_line(remember['rule'])} for {where}, {end} (grant {answer.grant_id})"


_GRANTED_IN = {
    GrantScope.EXECUTION: "this execution",
    GrantScope.SESSION: "this session",
    GrantScope.AGENT: "this agent",
}


def _answered(kind: RequestKind, answer: Answer) -> str:
    match kind:
        case RequestKind.INPUT:
            return _prose(answer.value["text"])
        case RequestKind.CHOICE:
            return one_line(", ".join(answer.value["selected"]))
        case RequestKind.QUESTIONS:
            parts = (
                f"{one_line(question)} {_prose(_joined(chosen))}"
                for question, chosen in answer.value["answers"].items()
            )
            return "; ".join(parts)
        case _:
            return shown_json(answer.value)


def _prose(text: str) -> str:
    """What a human typed, on one line."""
    return visible(text, one_line=True, prose=True)


def _joined(chosen: str | list[str]) -> str:
    return chosen if isinstance(chosen, str) else ", ".join(chosen)


def drift_name(part: Drift) -> str:
    """What has drifted, in a word or two."""
    return {Drift.AGENT_FILE: "agent file", Drift.CONFIG: "config", Drift.TOOL: "tool"}[part]


def drift_text(part: Drift, request: Request) -> str:
    """What has drifted since the question, and what it means for an answer, on one line."""
    match part:
        case Drift.AGENT_FILE:
            return "the agent file has changed since this execution started, which goes on with the old version"
        case Drift.CONFIG:
            return (
                "the defaults in config.yaml have changed since this execution started, which goes on with the old ones"
            )
        case Drift.TOOL:
            tool = one_line(request.tool_name or "the tool that asks")
            again = "a yes" if request.source is RequestSource.GATE else "the call"
            return f"the source of {tool} has changed since this was asked: {again} will be asked again before it runs"
        case unknown:
            assert_never(unknown)


def remaining(seconds: float) -> str:
    """A time to go, rounded to its largest unit: `42 s`, `5 min`, `3 h`, `2 d`."""
    left = max(round(seconds), 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if left >= 2 * size:
            return f"{left / size:.0f} {unit}"
    return f"{left} s"

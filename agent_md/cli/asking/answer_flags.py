"""Converts the options of `respond` to the response to a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent_md.cli.asking.answer_parsing import json_value
from agent_md.errors import AnswerRefused, UsageError
from agent_md.executions.grants import GrantScope
from agent_md.executions.requests import Request
from agent_md.executions.states import RequestKind

__all__ = ["ANSWER_FLAGS", "FlagAnswer", "given_by", "remember_by"]

ANSWER_FLAGS = "--yes, --always, --no, --text, --choice, --edit or --answers"

_EXAMPLES = {"--edit": '{"path": "notes.txt"}', "--answers": '{"Which one?": "The first"}'}

_FITS = {
    RequestKind.CONFIRM: (("approved", "args"), "--yes, --always, --no or --edit"),
    RequestKind.INPUT: (("text",), "--text"),
    RequestKind.CHOICE: (("selected",), "--choice"),
    RequestKind.QUESTIONS: (("answers",), "--answers"),
    RequestKind.CUSTOM: (("answers",), "--answers"),
}


@dataclass(frozen=True, slots=True)
class FlagAnswer:
    """One answer: what the flags say, under the key that a response has it, perhaps with a reason."""

    key: str
    value: Any
    reason: str | None
    remember: dict[str, str] | None = None
    """What is to be allowed from now on, with an approval."""

    def response_to(self, request: Request) -> Any:
        """The response to a request. Raises AnswerRefused if its kind is answered by other flags."""
        keys, flags = _FITS[request.kind]
        if self.key not in keys:
            raise AnswerRefused(f"request {request.id} is of the kind {request.kind}: answer it with {flags}")
        if request.kind is RequestKind.CUSTOM:
            return self.value
        given = {"reason": self.reason, "remember": self.remember}
        beside = {name: value for name, value in given.items() if value is not None}
        if self.key == "args":
            return {"approved": True, "args": self.value, **beside}
        return {self.key: self.value, **beside}


def given_by(
    *,
    yes: bool,
    no: bool,
    reason: str | None,
    text: str | None,
    choice: list[str] | None,
    edit: str | None,
    answers: str | None,
    remember: dict[str, str] | None = None,
) -> FlagAnswer | None:
    """The one answer that these flags give; None without any. Raises UsageError for several, AnswerRefused for no JSON."""
    approves = yes or remember is not None
    found: list[tuple[str, Any]] = [("approved", value) for value, flag in ((True, approves), (False, no)) if flag]
    if text is not None:
        found.append(("text", text))
    if choice:
        found.append(("selected", choice))
    if edit is not None:
        found.append(("args", _object("--edit", edit)))
    if answers is not None:
        found.append(("answers", _json("--answers", answers)))
    if len(found) > 1:
        raise UsageError(f"give one answer: {ANSWER_FLAGS}")
    if reason is not None and (not found or found[0][0] not in ("approved", "args")):
        raise UsageError("--reason goes with --yes, --always, --no or --edit")
    return FlagAnswer(*found[0], reason, remember) if found else None


def remember_by(
    *, always: bool, rule: str | None, scope: GrantScope | None, until: str | None
) -> dict[str, str] | None:
    """The `remember` of an answer by these flags; None without --always. Raises UsageError for others without it."""
    given = {"rule": rule, "scope": scope and str(scope), "until": until}
    remember = {name: value for name, value in given.items() if value is not None}
    if remember and not always:
        raise UsageError(f"{', '.join(f'--{name}' for name in remember)} goes with --always")
    return remember if always else None


def _object(option: str, text: str) -> dict[str, Any]:
    value = _json(option, text)
    if not isinstance(value, dict):
        raise AnswerRefused(f"{option} takes a JSON object with all arguments of the call; nothing was answered")
    return value


def _json(option: str, text: str) -> Any:
    try:
        return json_value(text)
    except ValueError as error:
        raise AnswerRefused(
            f"{option} is not JSON: {error}; write it such as '{_EXAMPLES[option]}'. Nothing was answered"
        ) from None

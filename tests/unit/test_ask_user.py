from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from agent_md.errors import InvalidArguments
from agent_md.executions.states import Outcome, RequestKind
from agent_md.sdk import Pause
from agent_md.tools.ask_user import AskUser
from tests.support.call_context import FakeCall, answered, running_call


def ask(call: FakeCall, **args: Any) -> str:
    tool = AskUser()
    valid = tool.validate({"question": "Which?", **args})
    with running_call(call):
        return asyncio.run(tool.run(valid, tool.plan(valid)))


@pytest.mark.parametrize(
    ("args", "answer", "result"),
    [
        ({}, answered({"text": "the red one"}), "the red one"),
        ({"kind": "input"}, answered({"text": ""}), ""),
        ({"kind": "confirm"}, (Outcome.APPROVED, {"approved": True}), "Yes"),
        ({"kind": "confirm"}, (Outcome.DENIED, {"approved": False}), "No"),
        ({"kind": "confirm"}, (Outcome.DENIED, {"approved": False, "reason": "too late"}), "No: too late"),
        ({"kind": "choice", "options": ["a", "é"]}, answered({"selected": ["é"]}), "é"),
        ({"kind": "choice", "options": ["a", "é"], "multi": True}, answered({"selected": ["a", "é"]}), '["a", "é"]'),
        ({"kind": "choice", "options": ["a", "b"], "multi": True}, answered({"selected": ["a"]}), '["a"]'),
    ],
)
def test_answers(args: dict[str, Any], answer: tuple[Outcome, Any], result: str) -> None:
    assert ask(FakeCall([answer]), **args) == result


@pytest.mark.parametrize("args", [{}, {"kind": "confirm"}, {"kind": "choice", "options": ["a"]}])
def test_what_was_not_answered_is_said(args: dict[str, Any]) -> None:
    assert ask(FakeCall([(Outcome.EXPIRED, None)]), **args) == "Action denied by user (timeout)"
    assert ask(FakeCall([(Outcome.CANCELLED, None)]), **args) == "Not executed: the execution was cancelled"


@pytest.mark.parametrize("args", [{}, {"kind": "choice", "options": ["a"]}])
def test_a_denial_is_said(args: dict[str, Any]) -> None:
    assert ask(FakeCall([(Outcome.DENIED, {"reason": "no time"})]), **args) == "Action denied by user: no time"


def test_the_request() -> None:
    call = FakeCall()
    with pytest.raises(Pause):
        ask(call, kind="choice", options=["a", "b"], multi=True)
    assert call.asked == [(RequestKind.CHOICE, "Which?", {"options": ("a", "b"), "multi": True})]


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"kind": "choice"}, "options"),
        ({"kind": "choice", "options": []}, "options"),
        ({"kind": "choice", "options": ["a", " "]}, "options"),
        ({"kind": "choice", "options": ["a", "a"]}, "options"),
        ({"kind": "choice", "options": ["a", "a "]}, "options"),
        ({"kind": "choice", "options": ["a", 1]}, "options[1]"),
        ({"kind": "choice", "options": "ab"}, "options"),
        ({"kind": "input", "options": ["a"]}, "options"),
        ({"options": ["a"]}, "options"),
        ({"kind": "confirm", "options": ["a"]}, "options"),
        ({"kind": "input", "multi": True}, "multi"),
        ({"kind": "question"}, "kind"),
        ({"question": " "}, "question"),
        ({"question": None}, "question"),
        ({"prompt": "x"}, "prompt"),
    ],
)
def test_what_cannot_be_asked_goes_back_to_the_model(args: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArguments) as error:
        AskUser().validate({"question": "Which?", **args})
    assert f" {field}: " in str(error.value)


def test_the_parameters_are_json() -> None:
    assert json.loads(json.dumps(AskUser.parameters)) == AskUser.parameters

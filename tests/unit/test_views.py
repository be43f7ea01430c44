"""Requests as clients of a conversation see them, and what their answers stand for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agent_md.errors import AnswerRefused
from agent_md.executions.answers import validate_response
from agent_md.executions.calls import Call
from agent_md.executions.positions import Position
from agent_md.executions.requests import Preview, Request
from agent_md.executions.session_interrupts import answer_from_view, decision_view, interrupt_view
from agent_md.executions.states import CallState, Decision, Outcome, RequestKind
from agent_md.tools.ask_user import AskUser
from tests.support.samples import ask, guard
from tests.support.structured import DATABASE, FEATURES, option, question


def by(tool: str, **args: Any) -> Call:
    return Call(Position(0, 0), "c1", tool, args, Decision.RUN, None, CallState.PAUSED, 1)


ASK_USER = by(AskUser.name, question="?")
CUSTOM_TOOL = by("publish", page="a.html")

GUARDED = guard("file_delete", {"path": "a.txt"})
CONFIRM = ask(RequestKind.CONFIRM, "Really?")
INPUT = ask(RequestKind.INPUT, "Title?")
CHOICE = ask(RequestKind.CHOICE, "Where?", options=("staging", "production"), multi=False)
SEVERAL = ask(RequestKind.CHOICE, "Parts?", options=("a", "b", "c"), multi=True)
QUESTIONS = ask(RequestKind.QUESTIONS, questions=(DATABASE, FEATURES))


def user_input(*questions: dict[str, Any]) -> dict[str, Any]:
    return {"type": "user_input", "questions": list(questions)}


VIEWS: list[tuple[Request, Call, str, dict[str, Any]]] = [
    (
        GUARDED,
        by("file_delete", path="a.txt"),
        "tool_approval",
        {"type": "tool_approval", "tool_name": "file_delete", "tool_args": {"path": "a.txt"}},
    ),
    (
        CONFIRM,
        CUSTOM_TOOL,
        "tool_approval",
        {"type": "tool_approval", "tool_name": "publish", "tool_args": {"page": "a.html"}, "message": "Really?"},
    ),
    (
        ask(RequestKind.CONFIRM, "Really?", tool_name="rm", tool_args={"path": "b"}),
        CUSTOM_TOOL,
        "tool_approval",
        {"type": "tool_approval", "tool_name": "rm", "tool_args": {"path": "b"}, "message": "Really?"},
    ),
    (
        ask(RequestKind.CONFIRM, "Really?", tool_name="rm"),
        CUSTOM_TOOL,
        "tool_approval",
        {"type": "tool_approval", "tool_name": "rm", "tool_args": {}, "message": "Really?"},
    ),
    (
        ask(RequestKind.CONFIRM, "Really?", tool_args={}),
        CUSTOM_TOOL,
        "tool_approval",
        {"type": "tool_approval", "tool_name": "publish", "tool_args": {}, "message": "Really?"},
    ),
    (
        CONFIRM,
        ASK_USER,
        "user_input",
        user_input(question("Really?", option("Yes"), option("No"), header="Confirm")),
    ),
    (
        INPUT,
        ASK_USER,
        "user_input",
        user_input({"question": "Title?", "header": "Input", "multiSelect": False, "options": []}),
    ),
    (
        CHOICE,
        CUSTOM_TOOL,
        "user_input",
        user_input(question("Where?", option("staging"), option("production"), header="Choice")),
    ),
    (
        SEVERAL,
        CUSTOM_TOOL,
        "user_input",
        user_input(question("Parts?", option("a"), option("b"), option("c"), header="Choice", multi=True)),
    ),
    (QUESTIONS, CUSTOM_TOOL, "user_input", user_input(DATABASE, FEATURES)),
    (
        ask(RequestKind.CUSTOM, payload={"type": "slider", "max": 3}),
        CUSTOM_TOOL,
        "slider",
        {"type": "slider", "max": 3},
    ),
    (ask(RequestKind.CUSTOM, payload={"max": 3}), CUSTOM_TOOL, "custom", {"max": 3}),
    (ask(RequestKind.CUSTOM, payload={"type": 7}), CUSTOM_TOOL, "custom", {"type": 7}),
    (ask(RequestKind.CUSTOM, payload={}), CUSTOM_TOOL, "custom", {}),
]


@pytest.mark.parametrize(("request_", "call", "type_", "payload"), VIEWS)
def test_the_view(request_: Request, call: Call, type_: str, payload: dict[str, Any]) -> None:
    view = interrupt_view(request_, call)
    assert view == {"interrupt_id": "r1", "type": type_, "payload": payload}
    assert json.loads(json.dumps(view)) == view


def test_a_preview_stands_beside_the_payload() -> None:
    beside = {"rule": None, "digest": "d1", "editable": True}
    assert decision_view(GUARDED, CUSTOM_TOOL) == interrupt_view(GUARDED, CUSTOM_TOOL) | beside
    previewed = replace(GUARDED, preview=Preview(resolved="/ws/a", size=0), rule="confirm: file_read")
    assert decision_view(previewed, CUSTOM_TOOL) == {
        **interrupt_view(GUARDED, CUSTOM_TOOL),
        **beside,
        "rule": "confirm: file_read",
        "preview": {"resolved": "/ws/a", "size": 0},
    }
    asked = ask(RequestKind.CONFIRM, "Go on?")
    assert decision_view(asked, CUSTOM_TOOL) == interrupt_view(asked, CUSTOM_TOOL)


@pytest.mark.parametrize("own", ["tool_approval", "user_input"])
def test_a_custom_request_that_calls_itself_something_else_is_told_apart(own: str) -> None:
    schema = {"type": "object", "required": ["n"]}
    asked = ask(RequestKind.CUSTOM, payload={"type": own, "tool_name": "deploy"}, response_schema=schema)
    assert decision_view(asked, CUSTOM_TOOL) == {
        **interrupt_view(asked, CUSTOM_TOOL),
        "kind": "custom",
        "response_schema": schema,
    }
    plain = ask(RequestKind.CUSTOM, payload={"type": "map"})
    assert decision_view(plain, CUSTOM_TOOL) == interrupt_view(plain, CUSTOM_TOOL)


APPROVED, DENIED = {"approved": True}, {"approved": False}


@pytest.mark.parametrize(
    ("request_", "call", "value", "kept"),
    [
        (GUARDED, CUSTOM_TOOL, APPROVED, (Outcome.APPROVED, APPROVED)),
        (GUARDED, CUSTOM_TOOL, {**DENIED, "reason": "no"}, (Outcome.DENIED, {**DENIED, "reason": "no"})),
        (
            GUARDED,
            CUSTOM_TOOL,
            {**APPROVED, "args": {"path": "b"}},
            (Outcome.APPROVED, {**APPROVED, "args": {"path": "b"}}),
        ),
        (GUARDED, CUSTOM_TOOL, {**APPROVED, "reason": None, "args": None}, (Outcome.APPROVED, APPROVED)),
        (CONFIRM, CUSTOM_TOOL, {**DENIED, "reason": "no"}, (Outcome.DENIED, {**DENIED, "reason": "no"})),
        (CONFIRM, ASK_USER, {"answers": {"Really?": "Yes"}}, (Outcome.APPROVED, APPROVED)),
        (CONFIRM, ASK_USER, {"answers": {"Really?": "No"}}, (Outcome.DENIED, DENIED)),
        (INPUT, ASK_USER, {"answers": {"Title?": "  A "}}, (Outcome.ANSWERED, {"text": "  A "})),
        (INPUT, CUSTOM_TOOL, {"answers": {"Title?": ""}}, (Outcome.ANSWERED, {"text": ""})),
        (CHOICE, ASK_USER, {"answers": {"Where?": "staging"}}, (Outcome.ANSWERED, {"selected": ["staging"]})),
        (SEVERAL, ASK_USER, {"answers": {"Parts?": ["c", "a"]}}, (Outcome.ANSWERED, {"selected": ["a", "c"]})),
        (SEVERAL, ASK_USER, {"answers": {"Parts?": "b"}}, (Outcome.ANSWERED, {"selected": ["b"]})),
        (
            QUESTIONS,
            ASK_USER,
            {"answers": {"Which database?": "mine", "Which features?": ["Über", "Search"]}},
            (Outcome.ANSWERED, {"answers": {"Which database?": "mine", "Which features?": ["Search", "Über"]}}),
        ),
    ],
)
def test_what_an_answer_stands_for(request_: Request, call: Call, value: Any, kept: Any) -> None:
    assert validate_response(request_, answer_from_view(request_, call, value)) == kept


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"approved": "false"}, [1, {"a": None}]])
def test_any_value_answers_a_custom_request_unless_its_schema_refuses_it(value: Any) -> None:
    open_to_all = ask(RequestKind.CUSTOM, payload={})
    assert answer_from_view(open_to_all, CUSTOM_TOOL, value) == value
    assert validate_response(open_to_all, value) == (Outcome.ANSWERED, value)


def test_null_where_the_schema_of_a_custom_request_refuses_it() -> None:
    request = ask(RequestKind.CUSTOM, payload={}, response_schema={"type": "integer"})
    with pytest.raises(AnswerRefused, match="does not fit the request's schema"):
        validate_response(request, answer_from_view(request, CUSTOM_TOOL, None))


NEVER: list[Any] = [None, True, "yes", "Yes", [], {}, 0, {"approved": "false"}, {"approved": None}, {"approved": 1}]


@pytest.mark.parametrize("value", NEVER, ids=repr)
@pytest.mark.parametrize(
    ("request_", "call"),
    [
        (GUARDED, CUSTOM_TOOL),
        *((CONFIRM, call) for call in (CUSTOM_TOOL, ASK_USER)),
        *((request, ASK_USER) for request in (INPUT, CHOICE, SEVERAL, QUESTIONS)),
    ],
)
def test_what_answers_nothing(request_: Request, call: Call, value: Any) -> None:
    with pytest.raises(AnswerRefused):
        answer_from_view(request_, call, value)


@pytest.mark.parametrize(
    ("request_", "call", "value"),
    [
        (GUARDED, CUSTOM_TOOL, {"approved": False, "args": {"path": "b"}}),
        (GUARDED, CUSTOM_TOOL, {"approved": True, "args": "b"}),
        (GUARDED, CUSTOM_TOOL, {"approved": True, "answers": {}}),
        (GUARDED, CUSTOM_TOOL, {"answers": {"Really?": "Yes"}}),
        (CONFIRM, CUSTOM_TOOL, {"approved": True, "args": {}}),
        (CONFIRM, CUSTOM_TOOL, {"answers": {"Really?": "Yes"}}),
        (CONFIRM, ASK_USER, {"approved": True}),
        *((CONFIRM, ASK_USER, {"answers": {"Really?": word}}) for word in ("yes", "Yes ", "y", "maybe", "", True)),
        (CONFIRM, ASK_USER, {"answers": {"Really?": ["Yes", "No"]}}),
        (INPUT, ASK_USER, {"answers": {}}),
        (INPUT, ASK_USER, {"answers": {"Title?": None}}),
        (INPUT, ASK_USER, {"answers": {"Title?": "a", "Where?": "b"}}),
        (INPUT, ASK_USER, {"text": "a"}),
        (CHOICE, ASK_USER, {"answers": {"Where?": "my own"}}),
        (CHOICE, ASK_USER, {"answers": {"Where?": ["staging", "production"]}}),
        (SEVERAL, ASK_USER, {"answers": {"Parts?": ["a", "d"]}}),
        (SEVERAL, ASK_USER, {"answers": {"Parts?": []}}),
        (QUESTIONS, ASK_USER, {"answers": {"Which database?": "SQLite"}}),
        (QUESTIONS, ASK_USER, {"answers": {"Which database?": ["SQLite", "Postgres"], "Which features?": "x"}}),
        (ask(RequestKind.CUSTOM, payload={}), CUSTOM_TOOL, float("nan")),
        (INPUT, ASK_USER, {"answers": json.loads("[" * 200 + "]" * 200)}),
    ],
)
def test_what_its_type_refuses(request_: Request, call: Call, value: Any) -> None:
    with pytest.raises(AnswerRefused):
        answer_from_view(request_, call, value)

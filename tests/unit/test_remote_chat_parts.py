"""The parts of a chat with a server that need none: addresses, patience, interrupts as requests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from agent_md.cli.views.chat_texts import continue_hint, continuing
from agent_md.client.interrupts import as_request
from agent_md.client.sessions import Interrupt, SessionsClient, place_of
from agent_md.client.turns import retry_delays
from agent_md.errors import UsageError
from agent_md.executions.requests import Preview
from agent_md.executions.states import RequestKind, RequestSource
from tests.support.rendering import lines_of


@pytest.mark.parametrize(
    ("url", "agent", "base", "name"),
    [
        ("http://h:8000/agents/bot", None, "http://h:8000/agents/bot", "bot"),
        ("https://H/api/agents/My%20bot/", None, "https://h/api/agents/My%20bot", "My bot"),
        ("http://h:8000/agents/bot/sessions", "BOT", "http://h:8000/agents/bot", "BOT"),
        ("http://h:8000", "my bot", "http://h:8000/agents/my%20bot", "my bot"),
        ("http://[::1]:80/", None, "http://[::1]:80", "::1"),
        ("https://h/a%2Fb", None, "https://h/a%2Fb", "h"),
    ],
)
def test_where_sessions_are(url: str, agent: str | None, base: str, name: str) -> None:
    place = place_of(url, agent)
    assert (place.base, place.name, place.encrypted) == (base, name, url.startswith("https"))


@pytest.mark.parametrize(
    "url",
    [
        *("", "h:8000", "//h", "file:///etc/passwd", "http://", "http://h:x", "http://h:99999", "http://[::1"),
        *("http://h/?a=b", "http://h/#a", "http://k@h", "http://h\x00/"),
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(UsageError):
        place_of(url)


@pytest.mark.parametrize(
    ("url", "local"),
    [("http://localhost:1", True), ("http://127.9.0.1", True), ("http://[::1]", True), ("http://h", False)],
)
def test_whether_a_key_stays_on_this_machine(url: str, *, local: bool) -> None:
    assert place_of(url).local is local


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "ключ"])
def test_a_key_that_no_header_can_hold(key: str) -> None:
    with pytest.raises(UsageError) as refused:
        SessionsClient("http://h", key)
    assert "ключ" not in str(refused.value)


def test_a_server_is_given_minutes_in_longer_and_longer_steps() -> None:
    delays = list(retry_delays(300))
    assert 300 <= sum(delays) <= 310
    assert all(earlier <= later <= 10 for earlier, later in pairwise(delays))
    assert len(delays) < 50


def request_of(kind: str, payload: Any) -> Any:
    return as_request(Interrupt("i", kind, payload), "bot")


def test_an_approval_is_a_confirmation_of_its_call() -> None:
    request = request_of("tool_approval", {"type": "tool_approval", "tool_name": "rm", "tool_args": {"path": "a"}})
    assert (request.kind, request.source) == (RequestKind.CONFIRM, RequestSource.GATE)
    assert (request.tool_name, request.tool_args) == ("rm", {"path": "a"})


def test_an_approval_that_a_tool_asks_for_has_its_own_words() -> None:
    request = request_of("tool_approval", {"tool_name": "rm", "tool_args": None, "message": "Really?"})
    assert (request.source, request.message, request.tool_args) == (RequestSource.TOOL, "Really?", {})


@pytest.mark.parametrize("own", ["tool_approval", "user_input"])
def test_what_is_custom_is_shown_as_it_came_whatever_it_calls_itself(own: str) -> None:
    payload = {"type": own, "tool_name": "deploy", "questions": [{"question": "Sure?"}]}
    asked = as_request(Interrupt("i", own, payload, kind="custom", response_schema={"type": "object"}), "bot")
    assert (asked.kind, asked.payload, asked.response_schema) == (RequestKind.CUSTOM, payload, {"type": "object"})
    assert as_request(Interrupt("i", own, payload), "bot").kind is not RequestKind.CUSTOM


@pytest.mark.parametrize(
    ("given", "preview"),
    [
        ({"resolved": "/a", "diff": "+x", "size": 3, "type": "text"}, Preview("/a", "+x", 3, "text")),
        ({"resolved": None, "size": 0, "more": 1}, Preview(size=0)),
        ({"resolved": ["/a"], "diff": {}, "size": "3", "type": "text"}, Preview(type="text")),
        (None, None),
        ("/a", None),
    ],
)
def test_what_a_call_would_do(given: Any, preview: Preview | None) -> None:
    assert as_request(Interrupt("i", "tool_approval", {"tool_name": "rm"}, given), "bot").preview == preview


def test_questions_are_structured_questions() -> None:
    request = request_of("user_input", {"questions": [{"question": "Name?", "options": None, "hint": 1}]})
    assert request.kind is RequestKind.QUESTIONS
    assert request.questions == ({"question": "Name?", "header": None, "multiSelect": False, "options": []},)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("map", {"at": 1}),
        ("map", None),
        ("tool_approval", "rm"),
        ("tool_approval", {"tool_args": {}}),
        ("tool_approval", {"tool_name": "rm", "tool_args": ["a"]}),
        ("user_input", {"questions": "?"}),
        ("user_input", {"questions": [1]}),
        ("user_input", {"questions": [{"question": "A", "header": 1}]}),
        ("user_input", {"questions": [{"question": "A", "multiSelect": "yes"}]}),
        ("user_input", {"questions": [{"question": "A", "options": [{"label": "B", "markdown": 1}]}]}),
    ],
)
def test_everything_else_takes_any_json(kind: str, payload: Any) -> None:
    request = request_of(kind, payload)
    assert (request.kind, request.message, request.response_schema) == (RequestKind.CUSTOM, f"{kind} request", None)
    assert request.payload == (payload if isinstance(payload, dict) else {"payload": payload})


def test_how_far_a_session_has_come() -> None:
    said = [("user", "One"), ("assistant", "1"), ("user", "Two\x1b")]
    assert lines_of(*continuing(said)) == ["  It goes on after 2 turns:", "  👤 Two\\x1b"]
    said.append(("assistant", "2"))
    assert lines_of(*continuing(said))[1:] == ["  👤 Two\\x1b", "  💬 2"]
    assert lines_of(*continuing(said, answered=False))[1:] == ["  👤 Two\\x1b"]
    assert list(continuing([("system", "Be kind.")])) == []


def test_the_way_back_can_be_typed() -> None:
    assert continue_hint(["--url", "http://h/agents/a"], "it's\x1b").endswith(
        "agentmd chat --url http://h/agents/a --session 'it'\"'\"'s\\x1b'"
    )


@pytest.mark.parametrize(
    ("given", "agents"),
    [
        ([{"execution_id": 1, "agent_id": "boss"}, {"execution_id": 2, "agent_id": "helper"}], ["boss", "helper"]),
        (None, []),
        ("boss", []),
        ([None, 1, {"agent_id": 3}], []),
    ],
)
def test_the_path_to_a_called_agent(given: Any, agents: list[str]) -> None:
    payload = {"tool_name": "file_delete", "tool_args": {}}
    asked = as_request(Interrupt("i", "tool_approval", payload, path=given), "bot")
    assert [step.agent for step in asked.path] == agents

"""What a tool asks about is seen wherever there is no terminal to ask on: short in lists, whole in the question."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_md.cli.views.listed_request import listed
from agent_md.cli.views.short_json import short_json
from agent_md.cli.views.tables import PendingRow, pending_table
from agent_md.cli.views.text_width import width_of
from agent_md.executions.requests import Request
from agent_md.executions.states import RequestKind
from agent_md.visible_text import is_suspicious
from agent_md.wording.request_text import summary, unasked
from tests.support.rendering import lines_of
from tests.support.samples import NOON, ask


def custom(payload: dict[str, Any], message: str = "refund request", **fields: Any) -> Request:
    return ask(RequestKind.CUSTOM, message, payload=payload, **fields)


def test_requests_that_differ_in_their_payload_alone_look_different() -> None:
    rows = [PendingRow(custom({"type": "refund", "to": "ann", "amount": amount})) for amount in (10, 99_999)]
    shown = lines_of(pending_table(rows, now=NOON))
    assert any('refund request {"type": "refund", "to": "ann", "amount": 10}' in line for line in shown)
    assert any('refund request {"type": "refund", "to": "ann", "amount": 99999}' in line for line in shown)


def test_so_do_confirmations_of_a_tool_that_differ_in_the_call_alone() -> None:
    requests = [
        ask(RequestKind.CONFIRM, "Pay back?", tool_name="refund", tool_args={"amount": amount}) for amount in (1, 2)
    ]
    assert [listed(request) for request in requests] == [
        'Pay back? (refund {"amount": 1})',
        'Pay back? (refund {"amount": 2})',
    ]
    assert [summary(request) for request in requests] == [listed(request) for request in requests]


@pytest.mark.parametrize("name", ["message", "prompt", "question"])
def test_the_text_that_is_the_message_is_not_said_twice(name: str) -> None:
    request = custom({name: "Stars?", "of": 5}, "Stars?")
    assert listed(request) == 'Stars? {"of": 5}'
    assert listed(custom({name: "Stars?"}, "Stars?")) == "Stars?"
    assert listed(custom({name: "Other"}, "Stars?")) == f'Stars? {{"{name}": "Other"}}'


def test_a_huge_payload_is_bounded_in_lists_whole_elsewhere_and_hides_no_key() -> None:
    payload = {
        "note": "x" * 15_000,
        "files": [f"f{n}" for n in range(99)],
        "deep": {"a": {"b": {"c": 1}}},
        "amount": 99_999,
    }
    request = custom(payload)
    short = listed(request)
    assert len(short) < 250
    assert '"amount": 99999' in short
    assert short.endswith(f"({len(json.dumps(payload)):,} characters)")
    for text in (summary(request), listed(request, whole=True), unasked(request)):
        assert text == f"refund request {json.dumps(payload)}"


def test_what_has_no_room_at_all_says_so() -> None:
    payload = {f"key{n}": n for n in range(1000)}
    short = short_json(payload, 40)
    assert short.startswith('{"key0": 0, "key1": 1,')
    assert short.endswith(f"… ({len(json.dumps(payload)):,} characters)")
    assert width_of(short.partition(" (")[0]) <= 40


def test_hostile_text_is_visible_and_stays_on_its_line() -> None:
    payload = {
        "amount\x1b[2K": "10\u202e000",
        "note": "a\nConfirm refund {}: approved by cli:ann",
        "wide": "\u3042" * 200,
    }
    request = custom(payload, "Pay\rNothing")
    for text in (
        listed(request),
        summary(request),
        unasked(request),
        *lines_of(pending_table([PendingRow(request)], now=NOON))[2:],
    ):
        assert not is_suspicious(text)
        assert "\n" not in text
    assert r"Pay\rNothing" in listed(request)
    assert "\\u202e" in listed(request)
    assert all(width_of(line) <= 60 for line in lines_of(pending_table([PendingRow(request)], now=NOON), width=60))


def test_where_nobody_can_be_asked_all_is_shown_that_an_answer_is_chosen_from() -> None:
    assert unasked(ask(RequestKind.CHOICE, "Where?", options=("a", "b"))) == "Where? [a | b]"
    rated = custom({"type": "rating"}, "Stars?", response_schema={"type": "integer"})
    assert unasked(rated) == 'Stars? {"type": "rating"} (must fit {"type": "integer"})'
    questions = (
        {"question": "How?", "header": "Way", "multiSelect": False, "options": [{"label": "Fast"}, {"label": "Slow"}]},
        {"question": "Why?", "options": []},
    )
    assert unasked(ask(RequestKind.QUESTIONS, "How? / Why?", questions=questions)) == "How? [Fast | Slow] / Why?"

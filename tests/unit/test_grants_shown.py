"""Grants as people see them: in a table of any width, in a few words, behind a call and an answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from agent_md.cli.views.event_lines import called
from agent_md.cli.views.grants import grant_text, grants_table, state_text
from agent_md.cli.views.text_width import width_of
from agent_md.executions.execution import Event
from agent_md.executions.grants import Grant, GrantEnd, GrantId, GrantScope
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Answer
from agent_md.executions.states import Drift, EventType, Outcome
from agent_md.serialization import grant_json
from agent_md.wording.request_text import decision_text
from tests.support.prompt_program import CONFIRM
from tests.support.rendering import lines_of

AT = 1_772_985_600.0  # 2026-03-08 16:00:00
GRANT = Grant(
    id=GrantId(3),
    agent="cleaner",
    execution_id=ExecutionId(42),
    session_id="garden",
    rule="file_delete(old/*)",
    scope=GrantScope.SESSION,
    spec_digest="s",
    tool_digest="t",
    tool_module=None,
    given_by="cli:ann",
    given_at=AT,
    until=AT + 7200,
)
HOSTILE = "a\x1b[31m\u202eb\n c"


def table(*rows: tuple[Grant, tuple[Drift, ...]], width: int | None = None) -> list[str]:
    return lines_of(grants_table(rows, zone=UTC), width=width)


def test_the_table() -> None:
    agent = replace(GRANT, id=GrantId(4), scope=GrantScope.AGENT, until=None, given_by="http:bob")
    execution = replace(GRANT, scope=GrantScope.EXECUTION, ended=GrantEnd.OVER)
    assert table((agent, (Drift.AGENT_FILE, Drift.TOOL)), (GRANT, ()), (execution, ())) == [
        " #  Agent    Allows              For             Ends                 Given by",
        " ─────────────────────────────────────────────────────────────────────────────",
        " 4  cleaner  file_delete(old/*)  all executions  never                http:bob",
        "    suspended, since this has changed: agent file, tool",
        " 3  cleaner  file_delete(old/*)  session garden  2026-03-08 18:00:00  cli:ann",
        " 3  cleaner  file_delete(old/*)  execution 42    2026-03-08 18:00:00  cli:ann",
        "    over: its execution has ended",
    ]
    assert table() == ["No grants."]


@pytest.mark.parametrize("width", [20, 60, 200])
def test_nothing_is_cut_and_no_line_is_wider_than_the_screen(width: int) -> None:
    long = replace(GRANT, rule=f"file_delete({'folder/' * 20}*)", agent="日本語" * 10)
    lines = table((long, (Drift.TOOL,)), width=width)
    assert max(map(width_of, lines)) <= width
    assert "".join(lines).count("/") == 20


def test_text_of_others_is_made_visible() -> None:
    hostile = replace(GRANT, rule=f"t({HOSTILE})", agent=HOSTILE, session_id=HOSTILE, given_by=f"http:{HOSTILE}")
    revoked = replace(hostile, ended=GrantEnd.REVOKED, ended_by=f"http:{HOSTILE}", ended_at=AT)
    event = Event(1, ExecutionId(1), "k", EventType.TOOL_CALL, "", _call_data(HOSTILE), AT)
    value = {"approved": True, "remember": {"rule": HOSTILE, "scope": "agent", "until": "8h"}}
    shown = [
        *table((hostile, ())),
        grant_text(hostile, zone=UTC),
        state_text(revoked, (), zone=UTC),
        called(event)[1],
        decision_text(replace(CONFIRM, answer=_answer(value))),
    ]
    assert not any(char in text for text in shown for char in "\x1b\u202e\n")


def _call_data(name: str) -> dict[str, Any]:
    return {"tool_name": "t", "args": {"path": name}, "grant": {"id": 3, "rule": name, "given_by": name}}


def _answer(value: dict[str, Any]) -> Answer:
    return Answer(CONFIRM.id, Outcome.APPROVED, value, "cli:ann", AT, AT, grant_id=GrantId(3))


def test_a_call_names_the_grant_by_which_it_runs() -> None:
    event = Event(1, ExecutionId(1), "k", EventType.TOOL_CALL, "", _call_data("x"), AT)
    assert called(replace(event, data={**event.data, "grant": {"id": 3, "rule": "t", "given_by": "cli:ann"}})) == (
        *("🔧", 't → {"path": "x"} (allowed by grant 3 of cli:ann)', ""),
    )


def test_an_answer_says_what_else_it_allows() -> None:
    value = {"approved": True, "reason": "fine", "remember": {"rule": "t(x)", "scope": "agent", "until": "8h"}}
    assert decision_text(replace(CONFIRM, answer=_answer(value))) == (
        "approved by cli:ann and t(x) for this agent, 8h (grant 3): fine"
    )


def test_in_words() -> None:
    assert grant_text(GRANT, zone=UTC) == "grant 3 of cli:ann, for session garden, until 2026-03-08 18:00:00"
    assert state_text(replace(GRANT, ended=GrantEnd.EXPIRED), (Drift.TOOL,)) == "expired"
    assert state_text(GRANT, ()) == ""


@pytest.mark.parametrize(
    ("fields", "drift", "state"),
    [
        ({}, (), "active"),
        ({}, (Drift.TOOL,), "suspended"),
        ({"ended": GrantEnd.EXPIRED}, (), "expired"),
        ({"ended": GrantEnd.REVOKED}, (), "revoked"),
        ({"ended": GrantEnd.OVER}, (), "over"),
    ],
)
def test_the_state_in_its_shape(fields: dict[str, Any], drift: tuple[Drift, ...], state: str) -> None:
    shape = grant_json(replace(GRANT, **fields), drift)
    assert shape["state"] == state
    assert (shape["given_at"], shape["until"]) == ("2026-03-08T16:00:00.000Z", "2026-03-08T18:00:00.000Z")

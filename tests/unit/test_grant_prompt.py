"""What a line means that is typed where something may be allowed from now on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent_md.cli.asking.grant_prompt import (
    GrantOptions,
    GrantTerms,
    Step,
    first_terms,
    local_granting,
    parse_step,
    remote_granting,
    wants_grant,
)
from agent_md.errors import AnswerRefused
from agent_md.executions.grants import GrantScope
from tests.support.prompt_program import REQUESTS, Details

SHOWN = GrantTerms("file_delete(output/*)", GrantScope.SESSION, "8h")
LOCAL = Details(REQUESTS["offered"]).granting


def step(line: str, among: GrantOptions = LOCAL) -> Step:
    return parse_step(line, SHOWN, among)


@pytest.mark.parametrize("line", ["a", "A", " always "])
def test_what_asks_for_it(line: str) -> None:
    assert wants_grant(line)
    assert first_terms(REQUESTS["offered"], LOCAL) == SHOWN


@pytest.mark.parametrize("line", ["", "y", "n", "al", "a a", "ab"])
def test_what_does_not(line: str) -> None:
    assert not wants_grant(line)


def test_a_request_that_offers_nothing() -> None:
    with pytest.raises(AnswerRefused, match="cannot be allowed from now on"):
        first_terms(REQUESTS["confirm"], LOCAL)


@pytest.mark.parametrize("line", ["y", "YES", " y "])
def test_agreed(line: str) -> None:
    assert step(line) == Step(agreed=True)


@pytest.mark.parametrize("line", ["", "n", "No", "  "])
def test_back(line: str) -> None:
    assert step(line) == Step()


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("file_delete(output/*.log)", {"rule": "file_delete(output/*.log)"}),
        (" file_delete(output/stale.log) ", {"rule": "file_delete(output/stale.log)"}),
        ("agent", {"scope": GrantScope.AGENT}),
        ("Execution", {"scope": GrantScope.EXECUTION}),
        ("never", {"until": "never"}),
        ("30m", {"until": "30m"}),
        ("120M", {"until": "2h"}),
    ],
)
def test_changed(line: str, changed: dict[str, Any]) -> None:
    assert step(line) == Step(terms=replace(SHOWN, **changed))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("file_delete", "allows more than"),
        ("file_write(output/*)", "allows more than"),
        ("file_delete(output/other)", "does not fit the call"),
        ("5", "the unit is missing"),
        ("0h", "no time at all"),
        ("5x", "expected a time"),
        ("yes please", "is not a rule"),
        ("a", "allows more than"),
        ("y\ny", "answer y or n"),
        ("file_delete(output/*)\n", "answer y or n"),
    ],
)
def test_refused(line: str, said: str) -> None:
    with pytest.raises(AnswerRefused, match=said):
        step(line)


def test_a_scope_that_it_may_not_have() -> None:
    among = local_granting(REQUESTS["offered"], (GrantScope.EXECUTION, GrantScope.AGENT))
    with pytest.raises(AnswerRefused, match="execution, agent"):
        parse_step("session", replace(SHOWN, scope=GrantScope.EXECUTION), among)


def test_through_the_sessions_of_a_server_only_that_scope_and_the_server_checks_the_rule() -> None:
    among = remote_granting()
    assert first_terms(REQUESTS["offered"], among) == SHOWN
    assert step("file_delete(output/x)", among) == Step(terms=replace(SHOWN, rule="file_delete(output/x)"))
    for line in ("agent", "no rule", "5x"):
        with pytest.raises(AnswerRefused):
            step(line, among)

"""What calls of one tool can come to, by the rules of its agent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_md.agents.explained_rules import PossibleDecision, Subjects, ToolFacts, possible_verdicts
from agent_md.agents.rules import Verdict
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.executions.states import Decision

SPEC = AgentSpec("a", "", ModelRef("script", "a"), confirm_tools=())
FILE = ToolFacts("t", Subjects.SUBJECTS, frozenset({"path"}), frozenset({"path"}))
CUSTOM = ToolFacts("t", Subjects.UNSURE, frozenset({"x"}), frozenset({"x"}))
FREE = (Decision.RUN, None, None)


def verdicts(tool: ToolFacts = FILE, **lists: list[str]) -> list[tuple[Decision, str | None, str | None]]:
    spec = replace(SPEC, **{name: tuple(rules) for name, rules in lists.items()})
    return [(p.verdict.decision, p.verdict.source, p.verdict.rule) for p in possible_verdicts(spec, tool)]


def test_without_rules_a_call_runs() -> None:
    assert verdicts() == [FREE]
    assert verdicts(confirm=["other"], deny=["other(a)"], auto_approve=["*"]) == [FREE]


def test_all_kinds_of_rules_in_the_order_of_decision() -> None:
    assert verdicts(
        deny=["t(keep/*)"], auto_approve=["t(drafts/*)"], confirm=["t(reports/*)"], confirm_tools=["t"]
    ) == [
        (Decision.REFUSE, "deny", "t(keep/*)"),
        (Decision.RUN, "auto_approve", "t(drafts/*)"),
        (Decision.ASK, "confirm", "t(reports/*)"),
        (Decision.ASK, "confirm_tools", "t"),
    ]


def test_the_first_rule_of_a_list_hides_what_it_covers() -> None:
    assert verdicts(confirm=["t", "t(a)"], confirm_tools=["t"]) == [(Decision.ASK, "confirm", "t")]
    assert verdicts(confirm=["t(*)", "t(a)"]) == [(Decision.ASK, "confirm", "t(*)")]
    assert verdicts(confirm=["t(a)", "t( a )"]) == [(Decision.ASK, "confirm", "t(a)"), FREE]
    assert verdicts(deny=["t"], auto_approve=["*"], confirm=["t"]) == [(Decision.REFUSE, "deny", "t")]


def test_a_rule_that_is_covered_in_part_is_listed() -> None:
    assert verdicts(confirm=["t(???*)", "t(a*)"]) == [
        (Decision.ASK, "confirm", "t(???*)"),
        (Decision.ASK, "confirm", "t(a*)"),
        FREE,
    ]


def test_what_lifts_needs_something_to_lift() -> None:
    assert verdicts(auto_approve=["t(a)", "t"]) == [FREE]
    assert verdicts(auto_approve=["*"], confirm=["t(a)"]) == [(Decision.RUN, "auto_approve", "*"), FREE]
    assert verdicts(replace(FILE, requires_approval=True), auto_approve=["t(a)"]) == [
        (Decision.RUN, "auto_approve", "t(a)"),
        (Decision.ASK, "requires_approval", None),
    ]


def test_a_question_mark_is_one_character() -> None:
    assert verdicts(confirm=["t(?*)"]) == [(Decision.ASK, "confirm", "t(?*)")]
    assert verdicts(confirm=["t(??*)"]) == [(Decision.ASK, "confirm", "t(??*)"), FREE]


@pytest.mark.parametrize(
    ("rule", "tool"), [("t(path=a)", FILE), ("t(a)", replace(CUSTOM, subjects=Subjects.ARGUMENTS))]
)
def test_a_pattern_that_can_never_be_applied_asks_always(rule: str, tool: ToolFacts) -> None:
    verdict = Verdict(Decision.ASK, "deny", rule)

    spec = replace(SPEC, deny=(rule,), auto_approve=("*",), confirm=("t",))

    assert possible_verdicts(spec, tool) == [PossibleDecision("t", verdict, unclear=True)]


def test_arguments_that_cannot_be_told_ask() -> None:
    found = possible_verdicts(replace(SPEC, deny=("t(x=a)",), auto_approve=("*",)), CUSTOM)

    assert found == [
        PossibleDecision("t", Verdict(Decision.REFUSE, "deny", "t(x=a)")),
        PossibleDecision("t", Verdict(Decision.ASK, "deny", "t(x=a)"), unclear=True),
        PossibleDecision("t", Verdict(Decision.RUN)),
    ]
    exact = possible_verdicts(replace(SPEC, deny=("t(x=a)",)), replace(CUSTOM, subjects=Subjects.ARGUMENTS))
    assert [possible.verdict.decision for possible in exact] == [Decision.REFUSE, Decision.RUN]


def test_a_denial_of_one_character_asks_about_the_others_that_cannot_be_told() -> None:
    assert verdicts(CUSTOM, deny=["t(x=?)"]) == [
        (Decision.REFUSE, "deny", "t(x=?)"),
        (Decision.ASK, "deny", "t(x=?)"),
        FREE,
    ]

"""What `explain` says, on screens of any width, of whatever an agent file has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_md.agents.explained_rules import Subjects, ToolFacts, possible_verdicts
from agent_md.agents.explanation import Explanation
from agent_md.agents.spec import AgentSpec, ModelRef, RunSettings, SandboxSettings, Secret, Trigger
from agent_md.cli.views.explanation import explanation_lines
from agent_md.cli.views.text_width import width_of
from agent_md.serialization.explanation import explanation_json
from tests.support.rendering import lines_of

SPEC = AgentSpec("reporter", "", ModelRef("script", "reporter"), icon="🥝", source_path="agents/reporter.md")


def explanation(spec: AgentSpec, *tools: str, custom: tuple[str, ...] = (), **told: tuple[str, ...]) -> Explanation:
    facts = [ToolFacts(name, Subjects.SUBJECTS, frozenset({"path"}), frozenset({"path"})) for name in tools]
    facts += [ToolFacts(name, Subjects.UNSURE, requires_approval=True) for name in custom]
    calls = [possible for fact in facts for possible in possible_verdicts(spec, fact)]
    return Explanation(spec, tuple(calls), "built in", custom=bool(custom), **told)


def shown(spec: AgentSpec, *tools: str, **more: tuple[str, ...]) -> str:
    return "\n".join(lines_of(*explanation_lines(explanation(spec, *tools, **more))))


def test_a_sandbox_and_what_it_is_given() -> None:
    assert "sandbox" not in shown(SPEC, "file_read")
    bare = replace(SPEC, sandbox=SandboxSettings())
    assert "run in a sandbox, with no variables and no network" in shown(bare, "file_read")
    given = replace(SPEC, sandbox=SandboxSettings(("REGION",)), allow_hosts=("*.example.com",))
    assert "run in a sandbox, with REGION, *.example.com" in shown(given, "file_read")


def test_every_outcome_has_its_group() -> None:
    spec = replace(
        SPEC,
        confirm=("file_edit", "file_move(reports/*)"),
        auto_approve=("file_write(drafts/*)",),
        deny=("file_delete(keep/*)",),
        confirm_timeout=7200.0,
    )

    assert (
        shown(spec, "file_delete", "file_edit", "file_glob", "file_move", "file_read", "file_write")
        == """\
🥝 reporter  script/reporter  agents/reporter.md

Refused, and nobody is asked
  file_delete(keep/*)  deny (agents/reporter.md)

Runs, although a rule would ask
  file_write(drafts/*)  auto_approve (agents/reporter.md)

Asks you first
  file_delete           defaults.confirm_tools (built in)
  file_edit             confirm (agents/reporter.md)
  file_move(reports/*)  confirm (agents/reporter.md)
  file_write            defaults.confirm_tools (built in)

Runs
  file_glob, file_read
  file_move  all other calls

Of several that fit, the upper one counts.

  A question  expires after 2h, which denies it
  A new run   is refused while one waits for you (on_pending: skip)
  Limits      50 calls, 500,000 tokens, 30m of work
  History     low (10 messages)
  Trigger     manual"""
    )


def test_tools_that_ask_by_themselves_are_told_unless_they_are_refused() -> None:
    assert "Asks you something when it runs\n  ask_user, ask_user_question\n" in shown(
        SPEC, "ask_user", "ask_user_question"
    )
    spec = replace(SPEC, confirm=("ask_user",), deny=("ask_user_question",))
    assert "Asks you something when it runs\n  ask_user\n" in shown(spec, "ask_user", "ask_user_question")


def test_everything_lifted_is_told_with_the_rule() -> None:
    text = shown(replace(SPEC, auto_approve=("*",)), "file_write")

    assert 'Runs, although a rule would ask\n  file_write  auto_approve: "*" (agents/reporter.md)\n' in text
    assert "Asks you first" not in text


def test_a_tool_may_guard_itself() -> None:
    text = shown(SPEC, custom=("send",))

    assert "  send  requires_approval (the tool itself)\n" in text
    assert "Custom tools may ask you something when they run." in text


def test_a_pattern_that_cannot_be_applied_is_told() -> None:
    text = shown(replace(SPEC, confirm=("file_edit(path=a)",)), "file_edit")

    assert "  file_edit  confirm: file_edit(path=a) (agents/reporter.md); this pattern cannot be applied\n" in text


def test_the_limit_of_the_workspace_stands_beside_those_of_the_agent() -> None:
    explanation = Explanation(SPEC, (), "built in", day_limit=20.0)

    assert "30m of work, $20 a day with all other agents" in "\n".join(lines_of(*explanation_lines(explanation)))
    assert explanation_json(explanation)["workspace_max_cost_usd_per_day"] == 20.0


def test_limits_and_trigger() -> None:
    spec = replace(
        SPEC,
        enabled=False,
        history=0,
        on_pending="parallel",
        settings=RunSettings(timeout=90, max_cost_usd=0.5, max_cost_usd_per_day=2),
        trigger=Trigger("schedule", every=300.0),
    )
    text = shown(spec, "file_read")

    assert "It is disabled: every run is refused." in text
    assert "A new run   is started also while one waits for you (on_pending: parallel)" in text
    assert "Limits      50 calls, 500,000 tokens, 90s of work, $0.5, $2 a day" in text
    assert "History     off" in text
    assert "Trigger     every 5m" in text
    assert "A question  stays open until it is answered" in text


def test_what_is_to_be_known_is_told() -> None:
    assert shown(SPEC, "file_read", notes=("x has\x1b no effect",)).endswith("\n\nnote: x has\\x1b no effect")


def test_what_keeps_it_from_running_is_told() -> None:
    assert shown(SPEC, "file_read", problems=("no key",)).endswith("\n\nIt cannot run as it is:\n  no key")


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_lines_fit_the_screen_and_hide_nothing(columns: int) -> None:
    hostile = "file_edit(a\x1b[2J\u202e/" + "x" * 200 + "/*)"
    spec = replace(
        SPEC, name="日本" * 10, confirm=(hostile, "file_move(" + "日" * 60 + ")"), deny=("file_read(  a  b)",)
    )
    told = explanation(spec, "file_edit", "file_move", "file_read", "file_write", problems=("word " * 60,))
    lines = lines_of(*explanation_lines(told), width=columns)

    assert max(width_of(line) for line in lines) <= columns
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert r"file_edit(a\x1b[2J\u202e/" in text
    assert "file_read(  a  b)" in text or columns == 40


def test_json_has_every_tool_once_for_each_outcome() -> None:
    spec = replace(SPEC, confirm=("file_move(reports/*)",), confirm_timeout=300.0)
    shape = explanation_json(explanation(spec, "ask_user", "file_move", "file_write", problems=("no key",)))

    assert shape["calls"] == [
        {"tool": "ask_user", "decision": "run", "source": None, "rule": None, "place": None, "unclear": False},
        {
            "tool": "file_move",
            "decision": "ask",
            "source": "confirm",
            "rule": "file_move(reports/*)",
            "place": "agents/reporter.md",
            "unclear": False,
        },
        {"tool": "file_move", "decision": "run", "source": None, "rule": None, "place": None, "unclear": False},
        {
            "tool": "file_write",
            "decision": "ask",
            "source": "confirm_tools",
            "rule": "file_write",
            "place": "built in",
            "unclear": False,
        },
    ]
    assert shape["ask_themselves"] == ["ask_user"]
    assert (shape["confirm_timeout"], shape["on_pending"], shape["history"]) == ("5m", "skip", "low")
    assert shape["problems"] == ["no key"]


def test_calls_that_need_no_approval_after_all_and_secrets_that_always_ask() -> None:
    spec = replace(
        SPEC, auto_approve=("http_request(PUT *)",), secrets=(Secret("SHOP_LOGIN"), Secret("OTHER", ("a.b",)))
    )
    facts = ToolFacts("http_request", Subjects.SUBJECTS, requires_approval=True, unasked="GET and HEAD")
    told = Explanation(spec, tuple(possible_verdicts(spec, facts)), "built in")
    text = "\n".join(lines_of(*explanation_lines(told)))
    assert "  http_request  requires_approval (the tool itself), except GET and HEAD\n" in text
    assert "\nRuns\n  http_request  all other calls\n" in text
    assert "Calls that use ${SHOP_LOGIN} ask whatever the rules say." in text

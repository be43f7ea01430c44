"""Rules: their syntax, what they match, and what they decide."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from agent_md.agents.rules import Match, RuleInvalid, Verdict, decide, match, parse_rule, unknown_tools
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.executions.states import Decision

SPEC = AgentSpec("cleaner", "", ModelRef("script", "cleaner"), confirm_tools=())


def verdict(
    tool: str = "send", subjects: tuple[str, ...] | None = None, *, asks: bool = False, **lists: Any
) -> Verdict:
    args = {"to": "ann", "count": 2}
    return decide(replace(SPEC, **{name: tuple(rules) for name, rules in lists.items()}), tool, args, subjects, asks)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is not a rule"),
        ("file write", "is not a rule"),
        ("file_write (a)", "is not a rule"),
        ("*", "only auto_approve"),
        ("file_*", "is not a rule"),
        ("a, b", "not one rule"),
        ("file_write(", "no closing bracket"),
        ("file_write(a)x", "no closing bracket"),
        ("file_write()", "an empty pattern"),
        ("file_write( )", "an empty pattern"),
        ("(a)", "is not a rule"),
    ],
)
def test_what_is_no_rule_is_refused(text: str, expected: str) -> None:
    with pytest.raises(RuleInvalid, match=expected):
        parse_rule(text)


@pytest.mark.parametrize(
    ("pattern", "subject", "fits"),
    [
        ("reports/*", "reports/a/b.txt", True),
        ("reports/*", "reports/", True),
        ("reports/*", "reports", False),
        ("reports/*", "old/reports/a", False),
        ("*.txt", "a/b.txt", True),
        ("*.txt", "a.txt\n", False),
        ("a*c", "a\nb\nc", True),
        ("?.txt", "a.txt", True),
        ("?.txt", ".txt", False),
        ("?.txt", "ab.txt", False),
        ("a?c", "a/c", True),
        ("**", "", True),
        ("a*b*b", "ab", False),
        ("a*b*b", "abb", True),
        ("a*a", "a", False),
        ("*a?*c", "xac", False),
        ("*a?*c", "xaac", True),
        ("REPORTS/*", "reports/a", False),
        ("[ab].txt", "a.txt", False),
        ("[ab].txt", "[ab].txt", True),
        ("a.b", "axb", False),
        ("(a|b)+", "a", False),
        ("\\d", "1", False),
        ("f(x)", "f(x)", True),
        ("POST https://example.com/*", "POST https://example.com/a?b=c", True),
        ("POST *", "GET https://example.com/POST ", False),
        ("Gr\u00f6\u00dfe/*", "Gro\u0308\u00dfe/a", True),
    ],
)
def test_a_pattern_is_a_glob_over_the_whole_subject(pattern: str, subject: str, fits: bool) -> None:
    found = match(parse_rule(f"tool({pattern})"), "tool", {}, (subject,))

    assert found is (Match.YES if fits else Match.NO)


def test_many_stars_over_a_long_text_are_quick() -> None:
    rule = parse_rule(f"tool({'*a' * 30}*b)")
    started = time.process_time()

    assert match(rule, "tool", {}, ("a" * 100_000,)) is Match.NO
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("pattern", "args", "found"),
    [
        ("to=*@example.com", {"to": "ann@example.com"}, Match.YES),
        ("to=*@example.com", {"to": "ann@example.org"}, Match.NO),
        ("to=*@example.com", {}, Match.NO),
        ("to=ann, count=2", {"to": "ann", "count": 2}, Match.YES),
        ("to=ann, count=2", {"to": "ann", "count": 20}, Match.NO),
        ("to=ann,count=2", {"to": "ann", "count": 2}, Match.YES),
        ("to=a, b, count=2", {"to": "a, b", "count": 2}, Match.YES),
        ('tags=["a","b"]', {"tags": ["a", "b"]}, Match.YES),
        ('opts={"a":1,"b":*}', {"opts": {"b": [2], "a": 1}}, Match.YES),
        ("name=ö", {"name": "ö"}, Match.YES),
        ("force=true", {"force": True}, Match.YES),
        ("force=null", {"force": None}, Match.YES),
        ("text=", {"text": ""}, Match.YES),
        ("ann", {"to": "ann"}, Match.UNCLEAR),
        ("ann, to=x", {"to": "x"}, Match.UNCLEAR),
    ],
)
def test_without_subjects_a_pattern_is_over_the_arguments(pattern: str, args: dict[str, Any], found: Match) -> None:
    assert match(parse_rule(f"send({pattern})"), "send", args, None) is found


@pytest.mark.parametrize(
    ("subjects", "every", "found"),
    [
        (("out/a", "out/b"), True, Match.YES),
        (("out/a", "in/b"), True, Match.NO),
        (("out/a", "in/b"), False, Match.YES),
        (("in/a", "in/b"), False, Match.NO),
        ((), True, Match.UNCLEAR),
        ((), False, Match.UNCLEAR),
    ],
)
def test_several_subjects(subjects: tuple[str, ...], every: bool, found: Match) -> None:
    assert match(parse_rule("file_move(out/*)"), "file_move", {}, subjects, every=every) is found


def test_an_argument_pattern_for_a_tool_with_subjects_is_unclear_and_so_asks() -> None:
    rule = parse_rule("file_write(path=secret/*)")

    assert match(rule, "file_write", {"path": "secret/a"}, ("secret/a",)) is Match.UNCLEAR
    assert match(rule, "file_write", {"other": ""}, ("path=secret/a",)) is Match.YES


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ({}, Verdict(Decision.RUN)),
        ({"confirm": ["other"]}, Verdict(Decision.RUN)),
        ({"confirm": ["send"]}, Verdict(Decision.ASK, "confirm", "send")),
        ({"confirm_tools": ["send"]}, Verdict(Decision.ASK, "confirm_tools", "send")),
        ({"asks": True}, Verdict(Decision.ASK, "requires_approval")),
        ({"confirm": ["send(to=bob)", "send(to=ann)"]}, Verdict(Decision.ASK, "confirm", "send(to=ann)")),
        ({"confirm": ["send(to=bob)"]}, Verdict(Decision.RUN)),
        ({"confirm": ["send"], "auto_approve": ["send"]}, Verdict(Decision.RUN, "auto_approve", "send")),
        ({"confirm_tools": ["send"], "auto_approve": ["*"]}, Verdict(Decision.RUN, "auto_approve", "*")),
        ({"asks": True, "auto_approve": ["*"]}, Verdict(Decision.RUN, "auto_approve", "*")),
        ({"asks": True, "auto_approve": ["send(to=bob)"]}, Verdict(Decision.ASK, "requires_approval")),
        ({"auto_approve": ["send"]}, Verdict(Decision.RUN)),
        ({"deny": ["send"]}, Verdict(Decision.REFUSE, "deny", "send")),
        ({"deny": ["send"], "confirm": ["send"], "auto_approve": ["*"]}, Verdict(Decision.REFUSE, "deny", "send")),
        ({"deny": ["send(to=bob)"], "asks": True}, Verdict(Decision.ASK, "requires_approval")),
        ({"deny": ["send(x)", "send(to=ann)"]}, Verdict(Decision.REFUSE, "deny", "send(to=ann)")),
        ({"deny": ["send(ann)"], "auto_approve": ["*"]}, Verdict(Decision.ASK, "deny", "send(ann)")),
        ({"confirm": ["send(ann)"]}, Verdict(Decision.ASK, "confirm", "send(ann)")),
        ({"asks": True, "auto_approve": ["send(ann)"]}, Verdict(Decision.ASK, "requires_approval")),
    ],
)
def test_the_order_of_a_decision(lists: dict[str, Any], expected: Verdict) -> None:
    assert verdict(**lists) == expected


@pytest.mark.parametrize(
    ("lists", "decision"),
    [
        ({"deny": ["file_move(secret/*)"]}, Decision.REFUSE),
        ({"confirm": ["file_move(secret/*)"]}, Decision.ASK),
        ({"asks": True, "auto_approve": ["file_move(secret/*)"]}, Decision.ASK),
        ({"asks": True, "auto_approve": ["file_move(*)"]}, Decision.RUN),
        ({"deny": ["file_read(secret/*)"]}, Decision.REFUSE),
        ({"deny": ["file_read(path=secret/*)"]}, Decision.ASK),
        ({"deny": ["file_read(public/*)"]}, Decision.RUN),
        ({"deny": ["file_read"]}, Decision.RUN),
        ({"confirm": ["file_read(secret/*)"]}, Decision.ASK),
        ({"asks": True, "auto_approve": ["file_read(*)"]}, Decision.ASK),
    ],
)
def test_no_end_of_a_move_gets_around_a_rule(lists: dict[str, Any], decision: Decision) -> None:
    assert verdict("file_move", ("secret/a", "public/a"), **lists).decision is decision


@pytest.mark.parametrize(("tool", "decision"), [("file_edit", Decision.REFUSE), ("file_write", Decision.RUN)])
def test_what_may_not_be_read_is_not_edited(tool: str, decision: Decision) -> None:
    assert verdict(tool, ("secret/a",), deny=["file_read(secret/*)"]).decision is decision


def test_unknown_tools_are_named_with_the_nearest() -> None:
    spec = replace(
        SPEC,
        confirm=("file_edt", "file_edit(a/*)"),
        auto_approve=("*",),
        deny=("xyz(a)",),
        confirm_tools=("deploy", "file_delet"),
    )

    assert unknown_tools(spec, {"file_edit", "file_delete"}, elsewhere={"deploy"}) == [
        ("file_edt", "file_edit"),
        ("xyz(a)", None),
        ("file_delet", "file_delete"),
    ]
    swapped = replace(SPEC, confirm=("delete_file", "Write-File(a)"))
    assert unknown_tools(swapped, {"file_edit", "file_delete", "file_write"}) == [
        ("delete_file", "file_delete"),
        ("Write-File(a)", "file_write"),
    ]
    assert unknown_tools(replace(SPEC, deny=("deploy",)), {"file_edit"}, elsewhere={"deploy"}) == [("deploy", None)]

"""Rules of grants: what is proposed for a call, and what may be given instead."""

from __future__ import annotations

from typing import Any

import pytest

from agent_md.agents.effects import Effects, Place
from agent_md.agents.grant_rules import checked_rule, fits, proposed_rule
from agent_md.agents.rules import RuleInvalid
from agent_md.executions.grants import GrantOffer
from agent_md.executions.states import EffectKind

CLOSED = {"type": "object", "additionalProperties": False}


def schema(*names: str, **more: Any) -> dict[str, Any]:
    return {**CLOSED, "properties": {name: {} for name in names}, **more}


def of_paths(*subjects: str) -> str | None:
    return proposed_rule("file", {}, subjects, schema=schema("path"), paths=True)


def of_arguments(**args: Any) -> str | None:
    return proposed_rule("deploy", args, None, schema=schema(*args), paths=False)


class TestProposed:
    @pytest.mark.parametrize(
        ("subjects", "rule"),
        [
            (["output/old.txt"], "file(output/*)"),
            (["a/b/c.txt"], "file(a/b/*)"),
            (["notes.txt"], "file(notes.txt)"),
            (["a/b/x", "a/c/y"], "file(a/*)"),
            (["a/x", "a/y"], "file(a/*)"),
            (["a b/ü, c/x"], "file(a b/ü, c/*)"),
            (["a=b/x"], "file(a=b/*)"),
            (["notes.txt", "notes.txt"], "file(notes.txt)"),
        ],
    )
    def test_for_paths_the_folder_that_has_them_all(self, subjects: list[str], rule: str) -> None:
        assert of_paths(*subjects) == rule

    @pytest.mark.parametrize(
        "subjects",
        [
            [],
            ["a/x", "b/y"],
            ["a/x", "y"],
            ["x", "y"],
            ["a*/x"],
            ["a?/x"],
            ["x*"],
            ["what?"],
            [" /x"],
            ["x "],
            ["path=x/y"],
            ["d" * 600 + "/x"],
        ],
    )
    def test_for_paths_that_no_rule_says_nothing(self, subjects: list[str]) -> None:
        args = {"path": "x"}
        assert proposed_rule("file", args, subjects, schema=schema("path"), paths=True) is None

    def test_for_other_subjects_exactly_these(self) -> None:
        def proposed(*subjects: str) -> str | None:
            return proposed_rule("run", {}, subjects, schema=schema("command"), paths=False)

        assert proposed("rm -r build/old") == "run(rm -r build/old)"
        for subject in ("rm *.tmp", "rm ?", " ls", ""):
            assert proposed(subject) is None

    @pytest.mark.parametrize(
        ("args", "rule"),
        [
            ({}, "deploy"),
            ({"to": "staging"}, "deploy(to=staging)"),
            ({"to": "staging", "n": 2, "dry": False}, "deploy(to=staging, n=2, dry=false)"),
            ({"to": ["a", "b"], "x": None}, 'deploy(to=["a","b"], x=null)'),
            ({"to": "a (b)"}, "deploy(to=a (b))"),
            ({"to": ""}, "deploy(to=)"),
            ({"to": "x), y"}, "deploy(to=x), y)"),
        ],
    )
    def test_for_arguments_exactly_these(self, args: dict[str, Any], rule: str) -> None:
        assert of_arguments(**args) == rule
        assert fits(rule, "deploy", args, None)

    @pytest.mark.parametrize("text", ["a*", "a?", " a", "a ", "a, n=1", "t" * 600])
    def test_for_arguments_that_no_rule_says_exactly_nothing(self, text: str) -> None:
        assert of_arguments(to=text) is None

    @pytest.mark.parametrize(
        "more", [schema("to", "force"), schema("to", additionalProperties=True), schema(), {}], ids=repr
    )
    def test_where_another_call_may_have_other_arguments_nothing(self, more: dict[str, Any]) -> None:
        assert proposed_rule("deploy", {"to": "x"}, None, schema=more, paths=False) is None

    def test_where_no_pattern_can_be_applied_nothing(self) -> None:
        assert proposed_rule("deploy", {"to": "x"}, (), schema=schema("to"), paths=False) is None


FILES = GrantOffer("file_delete(out/*)", "digest", ("out/old.txt",))
ARGUMENTS = GrantOffer("deploy(to=staging, n=2)", "digest", None)


def checked(text: str, offer: GrantOffer) -> str:
    tool = offer.rule.partition("(")[0]
    return checked_rule(text, offer, tool, {"to": "staging", "n": 2})


class TestNarrowed:
    @pytest.mark.parametrize(
        "text",
        [
            *("file_delete(out/*)", "file_delete(out/old.txt)", "file_delete(out/old*)", "file_delete(out/*.txt)"),
            *("file_delete(out/o?d.txt)", " file_delete(out/*t*) "),
        ],
    )
    def test_to_other_paths(self, text: str) -> None:
        assert checked(text, FILES) == text.strip()

    @pytest.mark.parametrize(
        "text",
        [
            *("file_delete", "file_delete(*)", "file_delete(out*)", "file_delete(o?t/*)", "file_delete(*/old.txt)"),
            *("file_write(out/*)", "file_delete(path=out/old.txt)", "file_delete(ou*t/old.txt)"),
        ],
    )
    def test_never_widened(self, text: str) -> None:
        with pytest.raises(RuleInvalid, match="allows more than"):
            checked(text, FILES)

    @pytest.mark.parametrize("text", ["file_delete(out/new.txt)", "file_delete(out/*.csv)", "file_delete(out/)"])
    def test_not_away_from_the_call(self, text: str) -> None:
        with pytest.raises(RuleInvalid, match="does not fit the call"):
            checked(text, FILES)

    @pytest.mark.parametrize("text", ["", "*", "file_delete(", "file_delete()", "a, b", "()"])
    def test_what_is_no_rule(self, text: str) -> None:
        with pytest.raises(RuleInvalid):
            checked(text, FILES)

    @pytest.mark.parametrize("text", ["deploy(to=staging, n=2)", "deploy(n=2, to=staging)", "deploy(n=2,to=staging)"])
    def test_arguments_in_any_order(self, text: str) -> None:
        assert checked(text, ARGUMENTS) == text

    @pytest.mark.parametrize(
        "text",
        ["deploy", "deploy(*)", "deploy(to=staging)", "deploy(to=*, n=2)", "deploy(to=staging, n=?)", "deploy(n=2)"],
    )
    def test_arguments_stay_exact(self, text: str) -> None:
        with pytest.raises(RuleInvalid, match="allows more than"):
            checked(text, ARGUMENTS)

    def test_a_tool_without_arguments(self) -> None:
        offer = GrantOffer("sync", "digest", None)
        assert checked_rule("sync", offer, "sync", {}) == "sync"
        with pytest.raises(RuleInvalid):
            checked_rule("sync(a=*)", offer, "sync", {})


class TestEffects:
    """A rule over effects in a grant: for the tool that asked, as narrow as one with its name."""

    OFFER = GrantOffer("file_delete(out/*)", "digest", ("out/old.txt",), EffectKind.WRITE)

    @pytest.mark.parametrize("rule", ["write(out/*)", "write(out/old.txt)", "write(out/o*)"])
    def test_what_is_not_wider_is_taken(self, rule: str) -> None:
        assert checked_rule(rule, self.OFFER, "file_delete", {"path": "out/old.txt"}) == rule

    @pytest.mark.parametrize("rule", ["write(*)", "write", "read(out/*)", "write(out/new.txt)"])
    def test_what_is_wider_or_does_not_fit_is_refused(self, rule: str) -> None:
        with pytest.raises(RuleInvalid):
            checked_rule(rule, self.OFFER, "file_delete", {"path": "out/old.txt"})

    def test_it_fits_what_it_says_alone(self) -> None:
        def writing(path: str) -> Effects:
            return Effects(reads=(), writes=(Place(path),))

        assert fits("write(out/*)", "file_delete", {}, ("out/a",), writing("out/a"))
        assert not fits("write(out/*)", "file_delete", {}, ("in/a",), writing("in/a"))
        assert not fits("write(out/*)", "unknown", {}, None)

"""Rules over effects: `read(GLOB)` and `write(GLOB)` fit the calls of every tool that reads or writes there."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_md.agents.effects import NO_EFFECTS, UNKNOWN_EFFECTS, Effects, Place
from agent_md.agents.globs import glob_fits, globs_meet
from agent_md.agents.rules import RuleInvalid, Verdict, decide, hides, parse_rule, unknown_tools
from agent_md.agents.spec import AgentSpec, ModelRef, PathMount
from agent_md.executions.states import Decision
from agent_md.tools.base import Tool
from tests.support.builtins import given_tools
from tests.support.file_sandbox import make_workspace, sandbox_on

SPEC = AgentSpec("cleaner", "", ModelRef("script", "cleaner"), confirm_tools=())
ASK, RUN, REFUSE = Decision.ASK, Decision.RUN, Decision.REFUSE


def spec(**lists: list[str]) -> AgentSpec:
    return replace(SPEC, **{name: tuple(rules) for name, rules in lists.items()})


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Tool]:
    workspace = make_workspace(tmp_path_factory.mktemp("place"))
    for name in ("secret/key", "out/a.txt"):
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text("text")
    (workspace / "link").symlink_to("secret")
    return {tool.name: tool for tool in given_tools(sandbox_on(workspace))}


def decided(tools: dict[str, Tool], agent: AgentSpec, name: str, **args: Any) -> Verdict:
    tool = tools[name]
    return decide(agent, name, args, tool.subjects(args), False, effects=tool.effects(args))


WRITING: dict[str, dict[str, str]] = {
    "file_write": {"path": "secret/new", "content": "x"},
    "file_edit": {"path": "link/../secret/key", "old_text": "a", "new_text": "b"},
    "file_delete": {"path": "./link/key"},
}
MOVES = ({"source": "secret/key", "destination": "x"}, {"source": "out/a.txt", "destination": "link/x"})
READING = [
    ("file_read", {"path": "link/key"}),
    ("file_edit", WRITING["file_edit"]),
    ("file_move", MOVES[0]),
]


@pytest.mark.parametrize(
    ("name", "args"), [*WRITING.items(), *(("file_move", args) for args in MOVES)], ids=lambda value: str(value)[:30]
)
def test_every_tool_that_writes_there(tools: dict[str, Tool], name: str, args: dict[str, str]) -> None:
    rule = "write(secret/*)"
    assert decided(tools, spec(confirm=[rule]), name, **args) == Verdict(ASK, "confirm", rule)
    assert decided(tools, spec(confirm_tools=[rule]), name, **args) == Verdict(ASK, "confirm_tools", rule)
    assert decided(tools, spec(deny=[rule], auto_approve=["*"]), name, **args) == Verdict(REFUSE, "deny", rule)
    lifted = decided(tools, spec(confirm=[name], auto_approve=[rule]), name, **args)
    assert lifted.decision is (ASK if name == "file_move" else RUN), "both ends of a move have to fit"
    assert decided(tools, spec(confirm=["write(other/*)"], deny=["read(other/*)"]), name, **args) == Verdict(RUN)


@pytest.mark.parametrize(("name", "args"), READING, ids=lambda value: str(value)[:30])
def test_every_tool_that_reads_there(tools: dict[str, Tool], name: str, args: dict[str, str]) -> None:
    assert decided(tools, spec(confirm=["read(secret/*)"]), name, **args).decision is ASK
    assert decided(tools, spec(deny=["read(secret/*)"]), name, **args).decision is REFUSE
    assert decided(tools, spec(deny=["read(out/*)"]), name, **args).decision is RUN


@pytest.mark.parametrize(
    ("name", "args"),
    [("file_write", WRITING["file_write"]), ("file_delete", WRITING["file_delete"]), ("file_move", MOVES[1])],
)
def test_what_only_writes_there_is_no_read(tools: dict[str, Tool], name: str, args: dict[str, str]) -> None:
    assert decided(tools, spec(confirm=["read(secret/*)"]), name, **args) == Verdict(RUN)


@pytest.mark.parametrize(
    ("pattern", "asks"),
    [("**/*", True), ("secret/*", True), ("sec*/k*", True), ("s[e]cret/x", True), ("out/**/*.txt", False)],
)
def test_a_search_that_may_find_something_there(tools: dict[str, Tool], pattern: str, asks: bool) -> None:
    assert (decided(tools, spec(confirm=["read(secret/*)"]), "file_glob", pattern=pattern).decision is ASK) == asks


def test_a_search_leaves_out_what_may_not_be_read(tools: dict[str, Tool]) -> None:
    agent = spec(deny=["read(secret/*)"], auto_approve=["*"])
    assert decided(tools, agent, "file_glob", pattern="**/*").decision is RUN
    assert hides(agent, "secret/key")
    assert not hides(agent, "out/a.txt")
    assert hides(spec(deny=["read"]), "out/a.txt")


@pytest.mark.parametrize(
    ("pattern", "rule", "runs"),
    [
        ("out/*", "read(out/*)", True),
        ("out/a/**/*", "read(out/*)", True),
        ("*", "read(*)", True),
        ("**/*", "read(out/*)", False),
        ("o*/a", "read(out/*)", False),
        ("out/*", "read(out/?*)", False),
        ("out/a", "read(out/*)", True),
    ],
)
def test_a_search_is_approved_where_all_of_it_fits(tools: dict[str, Tool], pattern: str, rule: str, runs: bool) -> None:
    agent = spec(confirm=["file_glob"], auto_approve=[rule])
    assert (decided(tools, agent, "file_glob", pattern=pattern).decision is RUN) == runs


def test_declared_paths_are_named_by_their_alias(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    (tmp_path / "data").mkdir()
    sandbox = sandbox_on(workspace, [PathMount("ws", str(workspace)), PathMount("data", str(tmp_path / "data"))])
    tools = {tool.name: tool for tool in given_tools(sandbox)}
    args = {"path": str(tmp_path / "data" / "x"), "content": ""}
    assert decided(tools, spec(confirm=["write(data/*)"]), "file_write", **args).decision is ASK
    assert decided(tools, spec(confirm=["write(ws/*)"]), "file_write", **args).decision is RUN


@pytest.mark.parametrize("asks_nothing", ["ask_user", "ask_user_question"])
def test_tools_without_files_are_left_alone(tools: dict[str, Tool], asks_nothing: str) -> None:
    assert tools[asks_nothing].effects({}) == NO_EFFECTS


class TestUndeclared:
    """A tool that does not say what it reads or writes."""

    @pytest.mark.parametrize("rule", ["write(a)", "read(a)", "write", "read"])
    def test_it_asks(self, rule: str) -> None:
        assert decide(spec(confirm=[rule]), "t", {}, None, False) == Verdict(ASK, "confirm", rule)
        assert decide(spec(deny=[rule], auto_approve=["*"]), "t", {}, None, False) == Verdict(ASK, "deny", rule)

    def test_only_its_name_lifts_the_guard(self) -> None:
        guarded = spec(confirm=["write(a)"], auto_approve=["write(*)", "read(*)"])
        assert decide(guarded, "t", {}, None, False).decision is ASK
        assert decide(replace(guarded, auto_approve=("t",)), "t", {}, None, False).decision is RUN

    def test_one_effect_may_be_known_without_the_other(self) -> None:
        effects = Effects(reads=None, writes=(Place("out/a"),))
        assert decide(spec(confirm=["write(b)"]), "t", {}, None, False, effects=effects).decision is RUN
        assert decide(spec(confirm=["read(b)"]), "t", {}, None, False, effects=effects).decision is ASK


class TestOtherEffect:
    """What may be written is no reason to read, and the other way round."""

    EFFECTS = Effects(reads=(Place("secret/a"),), writes=(Place("out/b"),))

    def verdict(self, **lists: list[str]) -> Verdict:
        return decide(spec(**lists), "t", {}, None, False, effects=self.EFFECTS)

    def test_a_guard_is_lifted_by_its_own_kind_alone(self) -> None:
        asked = self.verdict(confirm=["t", "read(secret/*)"], auto_approve=["write(out/*)"])
        assert asked == Verdict(ASK, "confirm", "read(secret/*)")
        assert self.verdict(confirm=["t"], auto_approve=["write(out/*)"]).decision is RUN
        both = self.verdict(confirm=["t", "read(secret/*)"], auto_approve=["write(out/*)", "read(secret/a)"])
        assert both == Verdict(RUN, "auto_approve", "write(out/*)")

    @pytest.mark.parametrize("lift", ["*", "t"])
    def test_a_rule_for_the_tool_lifts_all(self, lift: str) -> None:
        assert self.verdict(confirm=["read(secret/*)", "write(*)"], auto_approve=[lift]).decision is RUN

    def test_a_call_without_the_effect_is_not_lifted(self) -> None:
        agent = spec(confirm=["t"], auto_approve=["write(*)", "write"])
        assert decide(agent, "t", {}, None, False, effects=NO_EFFECTS).decision is ASK


def test_a_glob_that_a_tool_declares_may_fit_a_denial() -> None:
    effects = Effects(reads=(), writes=(Place("out/*", any_of=True),))
    assert decide(spec(deny=["write(out/x)"]), "t", {}, None, False, effects=effects).decision is ASK
    assert decide(spec(deny=["write(out/*)"]), "t", {}, None, False, effects=effects).decision is REFUSE
    assert decide(spec(deny=["write(in/*)"]), "t", {}, None, False, effects=effects).decision is RUN


@pytest.mark.parametrize(
    "text",
    [
        "file_write(a), file_delete(b)",
        "file_write(a),file_delete(b)",
        "write(a) read(b)",
        "write(a) and read(b)",
        "write(a); read(b)",
        "write(a)\nread(b)",
        "write(a) | read(b)",
        "file_write(a), file_delete",
        "file_write(a (1)), file_delete(b)",
        "file_write, file_delete",
    ],
)
def test_several_rules_in_one_text_are_refused(text: str) -> None:
    with pytest.raises(RuleInvalid, match="is not one rule"):
        parse_rule(text)


@pytest.mark.parametrize("pattern", ["a (1), b (2)", "f(x), g(y)", "a) b", "to=a), n=(b", "x(, y)"])
def test_brackets_within_a_pattern(pattern: str) -> None:
    assert parse_rule(f"t({pattern})").pattern == pattern


def test_rules_over_effects_name_no_unknown_tool() -> None:
    agent = spec(confirm=["write(a)", "read"], deny=["wirte(a)"])
    assert unknown_tools(agent, {"file_write", "write"}) == [("wirte(a)", "write")]


GLOBS = st.text("ab*?/", max_size=6)


@settings(deadline=None, max_examples=300)
@given(GLOBS, GLOBS)
def test_two_globs_meet_where_a_text_fits_both(one: str, other: str) -> None:
    texts = ("".join(chars) for size in range(6) for chars in itertools.product("ab/", repeat=size))
    if any(glob_fits(one, text) and glob_fits(other, text) for text in texts):
        assert globs_meet(one, other)
    elif len(re.sub(r"\*", "", one + other)) < 5:
        assert not globs_meet(one, other)


@settings(deadline=None, max_examples=300)
@given(GLOBS, GLOBS, st.text("ab/", max_size=6))
def test_what_surely_fits_fits_wherever_the_place_is(pattern: str, glob: str, text: str) -> None:
    if Place(glob, any_of=True).surely_fits(pattern) and glob_fits(glob, text):
        assert glob_fits(pattern, text)


def test_globs_that_are_too_long_to_tell_may_meet() -> None:
    assert globs_meet("a*" * 2000, "b*" * 2000)
    assert UNKNOWN_EFFECTS.reads is None

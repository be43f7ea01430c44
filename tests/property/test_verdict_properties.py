"""What `explain` lists is what `decide` does: nothing is decided that is not listed, and each list entry happens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects, Place
from agent_md.agents.explained_rules import Subjects, ToolFacts, possible_verdicts
from agent_md.agents.rules import Verdict, decide
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.executions.states import EffectKind

SPEC = AgentSpec("a", "", ModelRef("script", "a"), confirm_tools=())
ARGUMENTS = frozenset({"x", "y"})

GLOBS = st.text("ab*?", min_size=1, max_size=4)
PATTERNS = st.one_of(
    GLOBS.map(lambda glob: f"({glob})"),
    GLOBS.map(lambda glob: f"(x={glob})"),
    st.tuples(GLOBS, GLOBS).map(lambda globs: f"(y={globs[0]}, x={globs[1]})"),
    st.just("(z=a)"),
)
OWN_RULES = st.one_of(st.just(""), PATTERNS).map(lambda pattern: f"t{pattern}")
EFFECT_RULES = st.tuples(st.sampled_from(EffectKind), GLOBS).map(lambda rule: f"{rule[0]}({rule[1]})")
RULES = st.lists(OWN_RULES, max_size=3)
ALL_RULES = st.lists(st.one_of(OWN_RULES, EFFECT_RULES, st.sampled_from(["read", "write"])), max_size=3)
LIFTS = st.one_of(ALL_RULES, st.just(["*"]))
SPECS = st.tuples(ALL_RULES, LIFTS, ALL_RULES, ALL_RULES).map(
    lambda lists: replace(
        SPEC, **dict(zip(("deny", "auto_approve", "confirm", "confirm_tools"), map(tuple, lists), strict=True))
    )
)
TEXTS = st.text("abc", min_size=1, max_size=6)


@st.composite
def calls(draw: st.DrawFn, kind: Subjects) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """A call of the tool `t`, which always has the argument `x`."""
    args = {"x": draw(TEXTS)} | ({"y": draw(TEXTS)} if kind is Subjects.SUBJECTS or draw(st.booleans()) else {})
    if kind is Subjects.SUBJECTS:
        return args, tuple(draw(st.lists(TEXTS, min_size=1, max_size=2)))
    return args, () if kind is Subjects.UNSURE and draw(st.booleans()) else None


def tool(kind: Subjects, asks: bool, effects: Effects = UNKNOWN_EFFECTS) -> ToolFacts:
    return ToolFacts("t", kind, ARGUMENTS, frozenset({"x"}), asks, effects)


PLACES = st.one_of(
    st.none(),
    st.just(()),
    st.builds(lambda glob, left_out: (Place("", any_of=glob, leaves_out=left_out),), st.booleans(), st.booleans()),
)
EFFECTS = st.builds(Effects, PLACES, PLACES)


@st.composite
def called(draw: st.DrawFn, effects: Effects, subjects: tuple[str, ...] | None) -> Effects:
    """The effects of one call of a tool with these effects; those of a tool with subjects are on these."""

    def places(template: tuple[Place, ...] | None) -> tuple[Place, ...] | None:
        if not template:
            return template
        if subjects:
            return tuple(replace(template[0], path=path, any_of=False) for path in subjects)
        paths = draw(st.lists(st.one_of(TEXTS, GLOBS) if template[0].any_of else TEXTS, min_size=1, max_size=2))
        return tuple(replace(template[0], path=path) for path in paths)

    return Effects(places(effects.reads), places(effects.writes))


@settings(deadline=None, max_examples=300)
@given(st.data(), SPECS, st.sampled_from(Subjects), st.booleans(), EFFECTS)
def test_whatever_is_decided_is_listed(
    data: st.DataObject, spec: AgentSpec, kind: Subjects, asks: bool, effects: Effects
) -> None:
    args, subjects = data.draw(calls(kind))

    verdict = decide(spec, "t", args, subjects, asks, effects=data.draw(called(effects, subjects)))

    assert verdict in [possible.verdict for possible in possible_verdicts(spec, tool(kind, asks, effects))]


@settings(deadline=None)
@given(SPECS, st.sampled_from(Subjects), st.booleans())
def test_each_verdict_is_listed_once(spec: AgentSpec, kind: Subjects, asks: bool) -> None:
    verdicts = [possible.verdict for possible in possible_verdicts(spec, tool(kind, asks))]

    assert verdicts
    assert len(set(verdicts)) == len(verdicts)


@settings(deadline=None)
@given(st.data(), RULES, RULES, st.booleans())
def test_rules_of_other_tools_say_nothing(data: st.DataObject, own: list[str], other: list[str], asks: bool) -> None:
    others = tuple(f"o{rule}" for rule in other)
    spec = replace(SPEC, confirm=(*others, *own), deny=others, auto_approve=others, confirm_tools=others)

    assert possible_verdicts(spec, tool(Subjects.SUBJECTS, asks)) == possible_verdicts(
        replace(SPEC, confirm=tuple(own)), tool(Subjects.SUBJECTS, asks)
    )


@settings(deadline=None)
@given(RULES, RULES)
def test_a_tool_without_patterns_has_one_verdict(confirm: list[str], deny: list[str]) -> None:
    plain = replace(SPEC, confirm=tuple(r for r in confirm if r == "t"), deny=tuple(r for r in deny if r == "t"))
    (possible,) = possible_verdicts(plain, tool(Subjects.ARGUMENTS, False))

    assert possible.verdict == decide(plain, "t", {"x": "a"}, None, False)
    assert isinstance(possible.verdict, Verdict)

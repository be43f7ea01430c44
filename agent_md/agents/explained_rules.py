"""Lists the decisions that an agent's rules make for the calls of one tool, computed with `decide` itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, NamedTuple

from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects, Match, Place
from agent_md.agents.rules import EVERYTHING, Rule, Verdict, concerns, decide, match, may_lift, parse_rule
from agent_md.agents.spec import AgentSpec
from agent_md.executions.states import Decision, EffectKind

__all__ = ["PossibleDecision", "Subjects", "ToolFacts", "possible_verdicts", "unasked_changes"]

_FRESH = "\ue000"
"""A character that no rule has."""

_SOURCES = ("deny", "auto_approve", "confirm", "confirm_tools")
_GUARDS = ("confirm", "confirm_tools")
_LONGEST = 64


class Subjects(Enum):
    """What patterns are matched with: subjects, such as paths; arguments; or subjects that are only partly known."""

    SUBJECTS = auto()
    ARGUMENTS = auto()
    UNSURE = auto()


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What rules see of a tool. `arguments` are the names of all it takes, `required` of those that are always there;
    `effects` are those of a call, wherever they are."""

    name: str
    subjects: Subjects
    arguments: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    requires_approval: bool = False
    effects: Effects = UNKNOWN_EFFECTS
    unasked: str = ""
    """Which of its calls need no approval although it `requires_approval`, for people; empty = none."""


@dataclass(frozen=True, slots=True)
class PossibleDecision:
    """One verdict that calls of a tool can get. `unclear`: only because the rule's pattern cannot be applied to them."""

    tool: str
    verdict: Verdict
    unclear: bool = False
    unasked: str = ""
    """Which of these calls need no approval after all."""


def unasked_changes(spec: AgentSpec, tools: Iterable[ToolFacts]) -> list[str]:
    """Which of the tools may change something without asking: names, or `some calls of NAME`, in order."""
    found = []
    for tool in sorted(tools, key=lambda tool: tool.name):
        decisions = {possible.verdict.decision for possible in possible_verdicts(spec, tool)}
        if Decision.RUN in decisions and tool.effects.writes != ():
            found.append(tool.name if len(decisions) == 1 else f"some calls of {tool.name}")
    return found


class _Call(NamedTuple):
    args: dict[str, Any]
    subjects: tuple[str, ...] | None
    effects: Effects


def possible_verdicts(spec: AgentSpec, tool: ToolFacts) -> list[PossibleDecision]:
    """The verdicts that calls of the tool can get, each once, in the order in which rules are looked at.

    A rule that never decides is left out. A verdict without a rule, of calls that just run, is the last one.
    """
    found: dict[Verdict, PossibleDecision] = {}
    others = list(_others(spec, tool))
    for source in _SOURCES:
        for text in getattr(spec, source):
            if text == EVERYTHING or concerns(parse_rule(text), tool.name):
                for possible in _of_rule(spec, tool, source, text, others):
                    found.setdefault(possible.verdict, possible)
    for call in others:
        verdict = _decided(spec, tool, call)
        found.setdefault(verdict, PossibleDecision(tool.name, verdict))
    if tool.requires_approval and tool.unasked:
        asked = Verdict(Decision.ASK, "requires_approval")
        if asked in found:
            found[asked] = replace(found[asked], unasked=tool.unasked)
        for possible in possible_verdicts(spec, replace(tool, requires_approval=False)):
            found.setdefault(possible.verdict, possible)
    return sorted(found.values(), key=lambda possible: possible.verdict.source is None)


def _of_rule(
    spec: AgentSpec, tool: ToolFacts, source: str, text: str, others: list[_Call]
) -> Iterator[PossibleDecision]:
    """What the rule itself decides when no other pattern fits: first of calls that fit it, then of unclear ones."""
    rule = Rule(EVERYTHING, tool.name) if text == EVERYTHING else parse_rule(text)
    for lift in (None, *_other_lifts(spec, source, rule)):
        alone = _without_other_patterns(spec, tool, source, rule, others, lift)
        for call in _calls(tool, rule, lift):
            verdict = _decided(alone, tool, call)
            if (verdict.source, verdict.rule) == (source, text):
                fits = match(
                    *(rule, tool.name, call.args, call.subjects), effects=call.effects, every=source == "auto_approve"
                )
                yield PossibleDecision(tool.name, verdict, unclear=fits is not Match.YES)


def _other_lifts(spec: AgentSpec, source: str, rule: Rule) -> Iterator[Rule]:
    """Of a guard over effects: the rules that lift guards over the other effect, and leave this one."""
    if source in _GUARDS and rule.effect is not None:
        rules = [parse_rule(text) for text in spec.auto_approve if text != EVERYTHING]
        yield from (each for each in rules if each.effect not in (None, rule.effect))


def _decided(spec: AgentSpec, tool: ToolFacts, call: _Call) -> Verdict:
    return decide(spec, tool.name, call.args, call.subjects, tool.requires_approval, effects=call.effects)


def _without_other_patterns(
    spec: AgentSpec, tool: ToolFacts, source: str, rule: Rule, others: list[_Call], lift: Rule | None
) -> AgentSpec:
    """The agent with only the rules that have a say in every call that fits `rule`, and `lift`. A rule of `auto_approve`
    needs something to lift: any guard stands for that."""

    def has_a_say(name: str, text: str) -> bool:
        if text == EVERYTHING:
            return True
        other = parse_rule(text)
        if lift is not None and name == "auto_approve" and other == lift:
            return True
        if not concerns(other, tool.name):
            return False
        every = name == "auto_approve"
        if other.effect is None and other.pattern is None:
            return True
        same = (other.effect, other.pattern) == (rule.effect, rule.pattern)
        return same or all(
            match(other, tool.name, call.args, call.subjects, effects=call.effects, every=every) is not Match.NO
            for call in others
        )

    kept = {name: tuple(text for text in getattr(spec, name) if has_a_say(name, text)) for name in _SOURCES}
    if source == "auto_approve" and any(
        concerns(guard := parse_rule(text), tool.name) and may_lift(rule, guard)
        for name in _GUARDS
        for text in getattr(spec, name)
    ):
        kept["confirm"] = (tool.name,)
    return replace(
        spec,
        deny=kept["deny"],
        auto_approve=kept["auto_approve"],
        confirm=kept["confirm"],
        confirm_tools=kept["confirm_tools"],
    )


def _calls(tool: ToolFacts, rule: Rule, lift: Rule | None) -> Iterator[_Call]:
    """Calls that fit the rule, if any can; then calls to which its pattern cannot be applied, if there are such. What they
    do besides fits `lift`."""
    text = _fitting(rule.pattern or "*")
    effects = tool.effects.at(text)
    if lift is not None and lift.effect is not None:
        effects = effects.with_places(lift.effect, tool.effects.at(_fitting(lift.pattern or "*")).of(lift.effect))
    if tool.subjects is Subjects.SUBJECTS:
        yield _Call(dict.fromkeys(tool.arguments, ""), (text,), effects)
    else:
        args: dict[str, Any] = dict.fromkeys(tool.required, _FRESH)
        args |= {name: _fitting(glob) for name, glob in rule.arguments}
        yield _Call(args, None, effects)
    fresh = dict.fromkeys(tool.required, _FRESH * (_LONGEST + 2))
    if tool.subjects is Subjects.UNSURE:
        yield _Call(fresh, (), effects)
    for kind in EffectKind:  # of which no pattern but `*` fits all
        if any(place.any_of for place in tool.effects.of(kind) or ()):
            vague = effects.with_places(kind, (Place("*", any_of=True),))
            yield _Call(fresh, () if tool.subjects is Subjects.UNSURE else None, vague)


def _others(spec: AgentSpec, tool: ToolFacts) -> Iterator[_Call]:
    """Calls that fit no pattern that says anything; of several lengths, because `?` is one character."""
    texts = [text for source in _SOURCES for text in getattr(spec, source) if text != EVERYTHING]
    longest = max((text.count("?") for text in texts), default=0)
    for length in range(1, min(longest, _LONGEST) + 2):
        text = _FRESH * length
        effects = tool.effects.at(text)
        if tool.subjects is Subjects.SUBJECTS:
            yield _Call(dict.fromkeys(tool.arguments, ""), (text,), effects)
        else:
            yield _Call(dict.fromkeys(tool.required, text), None, effects)


def _fitting(glob: str) -> str:
    """A text that fits the glob, and hardly any other."""
    return glob.replace("*", _FRESH * (_LONGEST + 2))

"""Rules such as `file_delete` or `http_request(POST *)`: parsing, and the decision about a call.

The order is `deny`, then what is guarded (`confirm_tools`, `confirm`, tools that declare `requires_approval`) unless
`auto_approve` lifts it, else the call runs. A pattern is a glob: `*` stands for any text, `/` and line ends included,
`?` for one character, everything else for itself; case counts.

A call with several subjects (a move has two) is approved by `auto_approve` only if all of them match, but guarded or
denied as soon as one does: so neither end of a move gets around a rule. A pattern that cannot be applied to a call, for
example one without `name=` for a tool that has no subjects, never approves: as a guard or a denial it asks.

A guard or a denial of `file_read` with a pattern holds for whatever takes content from such a file: the source of a move,
which could be read at its new place, and an edit, whose errors say what is there.

`read(GLOB)` and `write(GLOB)` are rules over effects: they fit the calls of every tool that reads or writes there. A tool
that does not say what it reads or writes is to them as a call to which a pattern cannot be applied. In `auto_approve` such
a rule lifts no guard over the other effect: what may be written is no reason to read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_md.agents.command_rules import COMMAND_TOOL, match_command, parse_command_pattern
from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects, Match, Place, match_effects
from agent_md.agents.globs import glob_fits, globs_meet
from agent_md.agents.mcp_names import fits_tool
from agent_md.agents.names import nearest
from agent_md.agents.spec import AgentSpec
from agent_md.errors import UsageError
from agent_md.executions.states import Decision, EffectKind

__all__ = [
    "Match",
    "Rule",
    "RuleInvalid",
    "Verdict",
    "argument_text",
    "asks_to_read",
    "concerns",
    "decide",
    "glob_fits",
    "hides",
    "match",
    "may_lift",
    "parse_rule",
    "unknown_tools",
]

EVERYTHING = "*"
"""The one rule of `auto_approve` that is not a tool name."""

_READ = "file_read"
_READING = frozenset({"file_move", "file_edit"})
_FINDING = ("file_glob", "file_search")
"""Tools that take content from their first subject, as `file_read` does."""

_EFFECTS = frozenset(EffectKind)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(?:\.\*)?")
_ARGUMENT = re.compile(r"(?:^|,\s*)([A-Za-z_]\w*)=")
_ANOTHER_RULE = re.compile(r"(?:\s*[,;|&+]\s*|\s+(?:and|or)?\s*)[A-Za-z_][\w.-]*\s*\(")
"""What stands behind the closing bracket of a rule when another one follows."""


class RuleInvalid(UsageError):
    """The text is not a rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `arguments` are the pattern read as `name=glob, …`; empty if it cannot be read so."""

    text: str
    tool: str
    pattern: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def effect(self) -> EffectKind | None:
        """What it is about, of all tools; None = it is about calls of one tool."""
        return EffectKind(self.tool) if self.tool in _EFFECTS else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision and what made it: the name of a list and the rule in it as written.

    `source` is `deny`, `confirm_tools`, `confirm`, `requires_approval` (which has no rule), `auto_approve`, or None
    when no rule fits and the call just runs.
    """

    decision: Decision
    source: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    tool: str
    args: dict[str, Any]
    subjects: Sequence[str] | None
    given: dict[str, Any] | None = None
    effects: Effects = UNKNOWN_EFFECTS

    def match(self, text: str, *, every: bool) -> Match:
        rule = parse_rule(text)
        return match(rule, self.tool, self.args, self.subjects, given=self.given, effects=self.effects, every=every)


def parse_rule(text: str) -> Rule:
    """The rule that the text is. Raises RuleInvalid saying what is wrong; whether the tool exists is not checked."""
    name, opened, rest = text.strip().partition("(")
    if "," in name or re.search(r"\)\s*,[^)]*$", rest) or _goes_on(rest):
        raise RuleInvalid(f'"{text}" is not one rule; put each rule on a line of its own that starts with -')
    if name == EVERYTHING:
        raise RuleInvalid(f'"{text}" is not a tool; only auto_approve takes "*", on its own')
    if not _NAME.fullmatch(name):
        raise RuleInvalid(f'"{text}" is not a rule; write the name of a tool, or name(pattern)')
    if not opened:
        return Rule(text, name)
    if not rest.endswith(")"):
        raise RuleInvalid(f'"{text}" has no closing bracket at its end; write {name}(pattern)')
    pattern = rest[:-1].strip()
    if not pattern:
        raise RuleInvalid(f'"{text}" has an empty pattern; write {name} for all its calls, or {name}(pattern)')
    if name == COMMAND_TOOL:
        try:
            parse_command_pattern(pattern)
        except ValueError as error:
            raise RuleInvalid(f'"{text}" {error}') from None
    return Rule(text, name, pattern, _arguments(pattern))


def _goes_on(text: str) -> bool:
    """Whether another rule begins behind the bracket that closes the one of which this is the rest."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            depth = 0
            if _ANOTHER_RULE.match(text, at + 1):
                return True
    return False


def match(
    rule: Rule,
    tool: str,
    args: dict[str, Any],
    subjects: Sequence[str] | None,
    *,
    given: dict[str, Any] | None = None,
    effects: Effects = UNKNOWN_EFFECTS,
    every: bool = True,
) -> Match:
    """Whether the rule fits a call of `tool`.

    `subjects` are those of the call, None = its arguments: as the tool gets them, and as they were `given`. With
    `every` all subjects, effects, or both forms of the arguments, must match, else one is enough. An argument that the
    call does not have is no match.
    """
    if rule.effect is not None:
        return match_effects(rule.effect, rule.pattern, effects, every=every)
    if not fits_tool(rule.tool, tool):
        return _match_reading(rule, tool, subjects) if not every and concerns(rule, tool) else Match.NO
    if rule.pattern is None:
        return Match.YES
    if subjects is None or (not subjects and not every):
        found = _match_arguments(rule.arguments, [args, args if given is None else given], every)
        if subjects is None or found is Match.YES:
            return found
    if not subjects or (rule.arguments and rule.arguments[0][0] in args):
        return Match.UNCLEAR
    if tool == COMMAND_TOOL:
        return match_command(rule.pattern, subjects[0], every=every)
    matches = [glob_fits(rule.pattern, subject) for subject in subjects]
    found = _yes(all(matches) if every else any(matches))
    if found is Match.NO and not every and tool in _FINDING:
        return Match.UNCLEAR if any(globs_meet(rule.pattern, _wide(subject)) for subject in subjects) else Match.NO
    return found


def concerns(rule: Rule, tool: str) -> bool:
    """Whether the rule can fit calls of `tool`, as a guard or a denial."""
    return (
        fits_tool(rule.tool, tool)
        or rule.effect is not None
        or (rule.tool == _READ and rule.pattern is not None and tool in _READING)
    )


def _match_reading(rule: Rule, tool: str, subjects: Sequence[str] | None) -> Match:
    assert rule.pattern is not None
    if not subjects or (rule.arguments and rule.arguments[0][0] == "path"):
        return Match.UNCLEAR  # as for `file_read` itself
    return _yes(glob_fits(rule.pattern, subjects[0]))


def decide(
    spec: AgentSpec,
    tool: str,
    args: dict[str, Any],
    subjects: Sequence[str] | None,
    requires_approval: bool,
    given: dict[str, Any] | None = None,
    effects: Effects = UNKNOWN_EFFECTS,
) -> Verdict:
    """What to do with a proposed call of an agent, and by which rule.

    `requires_approval` is what the tool declares of itself; `subjects`, `given` and `effects` as in `match`.
    """
    call = _Call(tool, args, subjects, given, effects)
    denial, rule = _first(spec.deny, replace(call, effects=effects.to_be_denied()))
    if denial is Match.YES:
        return Verdict(Decision.REFUSE, "deny", rule)
    if denial is Match.UNCLEAR and tool not in _FINDING:  # these leave out what is denied: see `hides`
        return Verdict(Decision.ASK, "deny", rule)
    guards = list(_guards(spec, call, requires_approval))
    lifts = [text for text in spec.auto_approve if text == EVERYTHING or call.match(text, every=True) is Match.YES]
    lifted = [next((text for text in lifts if _lifts(text, guard)), None) for guard in guards]
    if None in lifted:
        return guards[lifted.index(None)]
    return Verdict(Decision.RUN, "auto_approve", lifted[0]) if lifted else Verdict(Decision.RUN)


def hides(spec: AgentSpec, path: str) -> bool:
    """Whether `file_glob` leaves the file with this subject out: a `deny` rule over reads, or with a pattern for a tool that
    reads or finds files, fits it."""
    rules = [text for text in spec.deny if (rule := parse_rule(text)).pattern is not None or rule.effect is not None]
    effects = Effects(reads=(Place(path),), writes=())
    calls = [_Call(tool, {}, (path,), effects=effects) for tool in (_READ, *_FINDING)]
    return any(_first(rules, call)[0] is Match.YES for call in calls)


def asks_to_read(spec: AgentSpec, path: str) -> bool:
    """Whether `file_search` leaves the file with this subject out: `file_read` of it is refused or asks first, or
    `file_glob` leaves it out."""
    effects = Effects(reads=(Place(path),), writes=())
    verdict = decide(spec, _READ, {"path": path}, (path,), requires_approval=False, effects=effects)
    return verdict.decision is not Decision.RUN or hides(spec, path)


def _wide(pattern: str) -> str:
    """A glob of rules that fits at least what the pattern of a finding tool finds."""
    plain, bracket, _ = pattern.replace("**/", "*").partition("[")
    return f"{plain}*" if bracket else plain


def unknown_tools(
    spec: AgentSpec, known: Collection[str], elsewhere: Collection[str] = ()
) -> list[tuple[str, str | None]]:
    """The rules of an agent whose tool is not in `known`, each with the nearest known name.

    `elsewhere` are tools that only other agents have: `confirm_tools`, which all agents share, may name them.
    """
    wrong = [rule for rule in (*spec.confirm, *spec.auto_approve, *spec.deny) if _unknown(rule, known)]
    wrong += [rule for rule in spec.confirm_tools if _unknown(rule, {*known, *elsewhere})]
    return [(rule, nearest(parse_rule(rule).tool, known)) for rule in dict.fromkeys(wrong)]


def _unknown(rule: str, known: Collection[str]) -> bool:
    if rule == EVERYTHING or (parsed := parse_rule(rule)).effect is not None:
        return False
    return not any(fits_tool(parsed.tool, name) for name in known)


def _guards(spec: AgentSpec, call: _Call, requires_approval: bool) -> Iterator[Verdict]:
    """What asks, in the order in which rules are looked at."""
    for source, rules in (("confirm", spec.confirm), ("confirm_tools", spec.confirm_tools)):
        fits = [(call.match(text, every=False), text) for text in rules]
        for wanted in (Match.YES, Match.UNCLEAR):
            yield from (Verdict(Decision.ASK, source, text) for found, text in fits if found is wanted)
    if requires_approval:
        yield Verdict(Decision.ASK, "requires_approval")


def _lifts(rule: str, guard: Verdict) -> bool:
    return rule == EVERYTHING or guard.rule is None or may_lift(parse_rule(rule), parse_rule(guard.rule))


def may_lift(rule: Rule, guard: Rule) -> bool:
    """Whether a rule of `auto_approve` may lift a guard: unless they are over different effects."""
    return len({rule.effect, guard.effect} - {None}) < 2


def _first(rules: Iterable[str], call: _Call) -> tuple[Match, str | None]:
    """The first rule that fits, else the first whose fit is unclear."""
    unclear = None
    for text in rules:
        found = call.match(text, every=False)
        if found is Match.YES:
            return found, text
        if found is Match.UNCLEAR:
            unclear = unclear or text
    return (Match.UNCLEAR, unclear) if unclear else (Match.NO, None)


def _arguments(pattern: str) -> tuple[tuple[str, str], ...]:
    found = list(_ARGUMENT.finditer(pattern))
    if not found or found[0].start() != 0:
        return ()
    ends = [following.start() for following in found[1:]] + [len(pattern)]
    return tuple((item[1], pattern[item.end() : end].strip()) for item, end in zip(found, ends, strict=True))


def _match_arguments(wanted: Sequence[tuple[str, str]], forms: Sequence[dict[str, Any]], every: bool) -> Match:
    if not wanted:
        return Match.UNCLEAR
    fits = [all(name in args and _fits(glob, args[name]) for name, glob in wanted) for args in forms]
    return _yes(all(fits) if every else any(fits))


def _fits(glob: str, value: Any) -> bool:
    """Whether a spelling of the value fits: a whole number may be written with `.0` or without."""
    whole = _whole(value)
    texts = {argument_text(value), argument_text(whole)}
    if isinstance(whole, int) and not isinstance(whole, bool):
        texts.add(f"{whole}.0")
    return any(glob_fits(glob, text) for text in texts)


def argument_text(value: Any) -> str:
    """What a pattern is matched against for this value of an argument."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _whole(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return value


def _yes(value: bool) -> Match:
    return Match.YES if value else Match.NO

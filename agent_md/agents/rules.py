"""Rules such as `file_delete` or `http_request(POST *)`, and what they decide about a call.

The order is `deny`, then what is guarded (`confirm_tools`, `confirm`, tools that declare `requires_approval`) unless
`auto_approve` lifts it, else the call runs. A pattern is a glob: `*` stands for any text, `/` and line ends included,
`?` for one character, everything else for itself; case counts.

A call with several subjects (a move has two) is approved by `auto_approve` only if all of them match, but guarded or
denied as soon as one does: so neither end of a move gets around a rule. A pattern that cannot be applied to a call, for
example one without `name=` for a tool that has no subjects, never approves: as a guard or a denial it asks.

A guard or a denial of `file_read` with a pattern holds for whatever takes content from such a file: the source of a move,
which could be read at its new place, and an edit, whose errors say what is there.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agent_md.agents.names import nearest
from agent_md.agents.spec import AgentSpec
from agent_md.errors import UsageError
from agent_md.executions.states import Decision

__all__ = [
    "Match",
    "Rule",
    "RuleInvalid",
    "Verdict",
    "argument_text",
    "concerns",
    "decide",
    "glob_fits",
    "hides",
    "match",
    "parse_rule",
    "unknown_tools",
]

EVERYTHING = "*"
"""The one rule of `auto_approve` that is not a tool name."""

_READ = "file_read"
_READING = frozenset({"file_move", "file_edit"})
"""Tools that take content from their first subject, as `file_read` does."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_ARGUMENT = re.compile(r"(?:^|,\s*)([A-Za-z_]\w*)=")


class RuleInvalid(UsageError):
    """The text is not a rule."""


class Match(StrEnum):
    """Whether a rule fits a call. `UNCLEAR` = its pattern cannot be applied to this call."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `arguments` are the pattern read as `name=glob, …`; empty if it cannot be read so."""

    text: str
    tool: str
    pattern: str | None = None
    arguments: tuple[tuple[str, str], ...] = ()


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

    def match(self, text: str, *, every: bool) -> Match:
        return match(parse_rule(text), self.tool, self.args, self.subjects, given=self.given, every=every)


def parse_rule(text: str) -> Rule:
    """The rule that the text is. Raises RuleInvalid saying what is wrong; whether the tool exists is not checked."""
    name, opened, rest = text.strip().partition("(")
    if "," in name or re.search(r"\)\s*,[^)]*$", rest):
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
    return Rule(text, name, pattern, _arguments(pattern))


def match(
    rule: Rule,
    tool: str,
    args: dict[str, Any],
    subjects: Sequence[str] | None,
    *,
    given: dict[str, Any] | None = None,
    every: bool = True,
) -> Match:
    """Whether the rule fits a call of `tool`.

    `subjects` are those of the call, None = its arguments: as the tool gets them, and as they were `given`. With
    `every` all subjects, or both forms of the arguments, must match, else one is enough. An argument that the call does
    not have is no match.
    """
    if rule.tool != tool:
        return _match_reading(rule, tool, subjects) if not every and concerns(rule, tool) else Match.NO
    if rule.pattern is None:
        return Match.YES
    if subjects is None or (not subjects and not every):
        found = _match_arguments(rule.arguments, [args, args if given is None else given], every)
        if subjects is None or found is Match.YES:
            return found
    if not subjects or (rule.arguments and rule.arguments[0][0] in args):
        return Match.UNCLEAR
    matches = [glob_fits(rule.pattern, subject) for subject in subjects]
    return _yes(all(matches) if every else any(matches))


def concerns(rule: Rule, tool: str) -> bool:
    """Whether the rule can fit calls of `tool`, as a guard or a denial."""
    return rule.tool == tool or (rule.tool == _READ and rule.pattern is not None and tool in _READING)


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
) -> Verdict:
    """What to do with a proposed call of an agent, and by which rule.

    `requires_approval` is what the tool declares of itself; `subjects` and `given` as in `match`.
    """
    call = _Call(tool, args, subjects, given)
    denial, rule = _first(spec.deny, call)
    if denial is Match.YES:
        return Verdict(Decision.REFUSE, "deny", rule)
    if denial is Match.UNCLEAR:
        return Verdict(Decision.ASK, "deny", rule)
    guard = _guard(spec, call, requires_approval)
    if guard is None:
        return Verdict(Decision.RUN)
    lifted = _lifted(spec.auto_approve, call)
    return guard if lifted is None else Verdict(Decision.RUN, "auto_approve", lifted)


def hides(spec: AgentSpec, path: str) -> bool:
    """Whether a `deny` rule with a pattern keeps `file_read` or `file_glob` from the file with this subject."""
    rules = [text for text in spec.deny if parse_rule(text).pattern is not None]
    return any(_first(rules, _Call(tool, {}, (path,)))[0] is Match.YES for tool in ("file_read", "file_glob"))


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
    return rule != EVERYTHING and parse_rule(rule).tool not in known


def _guard(spec: AgentSpec, call: _Call, requires_approval: bool) -> Verdict | None:
    for source, rules in (("confirm", spec.confirm), ("confirm_tools", spec.confirm_tools)):
        found, rule = _first(rules, call)
        if found is not Match.NO:
            return Verdict(Decision.ASK, source, rule)
    return Verdict(Decision.ASK, "requires_approval") if requires_approval else None


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


def _lifted(rules: Iterable[str], call: _Call) -> str | None:
    for text in rules:
        if text == EVERYTHING or call.match(text, every=True) is Match.YES:
            return text
    return None


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


def glob_fits(pattern: str, text: str) -> bool:
    """Whether the whole text fits. Takes time in proportion to the text for each `*`, never more."""
    text = unicodedata.normalize("NFC", text)
    first, *rest = unicodedata.normalize("NFC", pattern).split("*")
    if not rest:
        return _piece(first).fullmatch(text) is not None
    if not _piece(first).match(text):
        return False
    position = len(first)
    *middle, last = rest
    for piece in middle:
        found = _piece(piece).search(text, position)
        if found is None:
            return False
        position = found.end()
    tail = len(text) - len(last)
    return tail >= position and _piece(last).fullmatch(text, tail) is not None


def _piece(glob: str) -> re.Pattern[str]:
    """A glob without `*`: as long as what it matches."""
    return re.compile("".join("." if char == "?" else re.escape(char) for char in glob), re.DOTALL)

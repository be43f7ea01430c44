"""The rules of grants: proposes a rule for a call, validates narrower rules, matches calls with a grant.

A grant is matched against the arguments that the tool gets: these are what the human saw, and what runs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects, Place
from agent_md.agents.rules import Match, Rule, RuleInvalid, argument_text, glob_fits, match, parse_rule
from agent_md.executions.grants import GrantOffer
from agent_md.executions.states import EffectKind

__all__ = ["checked_rule", "fits", "proposed_rule"]

_LONGEST = 500
"""Characters of a proposed rule: people have to read it."""


def fits(
    rule: str,
    tool: str,
    args: dict[str, Any],
    subjects: Sequence[str] | None,
    effects: Effects = UNKNOWN_EFFECTS,
) -> bool:
    """Whether the rule of a grant fits a call. One that cannot be applied to it does not."""
    return match(parse_rule(rule), tool, args, subjects, effects=effects) is Match.YES


def proposed_rule(
    tool: str, args: dict[str, Any], subjects: Sequence[str] | None, *, schema: Mapping[str, Any], paths: bool
) -> str | None:
    """The widest rule that may be given for calls like this one; None if no rule can say it.

    For `paths` it fits everything below the folder that has all subjects, or the one file if that folder is the root.
    Else it fits this call alone: it has no wildcard, and names all arguments in the tool's JSON `schema`.
    """
    pattern = _pattern(args, subjects, schema, paths=paths)
    if pattern is None:
        return None
    text = f"{tool}({pattern})" if pattern else tool
    try:
        said = len(text) <= _LONGEST and fits(text, tool, args, subjects)
        exact = subjects is not None or parse_rule(text).arguments == _texts(args)
    except RuleInvalid:
        return None
    return text if said and exact else None


def checked_rule(text: str, offer: GrantOffer, tool: str, args: dict[str, Any]) -> str:
    """The rule that was given instead of the offered one. Raises RuleInvalid unless it fits the call that was asked
    about, and no call that the offered one does not fit."""
    rule, effects = parse_rule(text), _effects(offer)
    if not _is_within(rule, parse_rule(offer.rule), offer):
        raise RuleInvalid(f'"{text}" allows more than "{offer.rule}"; give that rule, or a narrower one')
    if match(rule, tool, args, offer.subjects, effects=effects) is not Match.YES:
        raise RuleInvalid(f'"{text}" does not fit the call that was asked about; "{offer.rule}" does')
    return text.strip()


def _effects(offer: GrantOffer) -> Effects:
    """What is known of the effects of the call that was asked about: those that its subjects are."""
    places = None if offer.subjects is None else tuple(map(Place, offer.subjects))
    return Effects(
        reads=places if offer.effect is EffectKind.READ else None,
        writes=places if offer.effect is EffectKind.WRITE else None,
    )


def _is_within(rule: Rule, widest: Rule, offer: GrantOffer) -> bool:
    """Whether every call that `rule` fits is one that `widest` fits. That one has no wildcard but a `*` at its end. A rule
    over effects is taken as one for the tool that was asked about, since a grant holds for that alone."""
    if rule.effect is not None and rule.effect is offer.effect:
        return widest.pattern is not None and rule.pattern is not None and glob_fits(widest.pattern, rule.pattern)
    if rule.tool != widest.tool or widest.pattern is None or rule.pattern is None:
        return rule.tool == widest.tool and widest.pattern is None
    if offer.subjects is None:
        return set(widest.arguments) <= set(rule.arguments)
    return glob_fits(widest.pattern, rule.pattern)


def _pattern(
    args: dict[str, Any], subjects: Sequence[str] | None, schema: Mapping[str, Any], *, paths: bool
) -> str | None:
    if subjects is None:
        return _all_arguments(args, schema)
    return _folder(subjects) if paths else _only(subjects)


def _folder(subjects: Sequence[str]) -> str | None:
    folders = [posixpath.dirname(subject) for subject in subjects]
    folder = posixpath.commonpath(folders) if folders and all(folders) else ""
    if not folder:
        return _only(subjects)
    return f"{folder}/*" if _is_literal(folder) else None


def _only(subjects: Sequence[str]) -> str | None:
    (subject,) = set(subjects) if len(set(subjects)) == 1 else [""]
    return subject if subject and _is_literal(subject) else None


def _all_arguments(args: dict[str, Any], schema: Mapping[str, Any]) -> str | None:
    """None if there may be other arguments in another call: a rule cannot say that one is not there."""
    texts = _texts(args)
    if schema.get("additionalProperties") or set(schema.get("properties", {})) != set(args):
        return None
    if not all(_is_literal(text) for _, text in texts):
        return None
    return ", ".join(f"{name}={text}" for name, text in texts)


def _texts(args: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((name, argument_text(value)) for name, value in args.items())


def _is_literal(text: str) -> bool:
    return "*" not in text and "?" not in text

"""The rules of grants: which one is proposed for a call, which others may be given instead, which calls one fits.

A grant is matched against the arguments that the tool gets: these are what the human saw, and what runs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from agent_md.agents.rules import Match, Rule, RuleInvalid, argument_text, glob_fits, match, parse_rule
from agent_md.executions.grants import GrantOffer

__all__ = ["checked_rule", "fits", "proposed_rule"]

_LONGEST = 500
"""Characters of a proposed rule: people have to read it."""


def fits(rule: str, tool: str, args: dict[str, Any], subjects: Sequence[str] | None) -> bool:
    """Whether the rule of a grant fits a call. One that cannot be applied to it does not."""
    return match(parse_rule(rule), tool, args, subjects) is Match.YES


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
    rule = parse_rule(text)
    if not _is_within(rule, parse_rule(offer.rule), offer.subjects):
        raise RuleInvalid(f'"{text}" allows more than "{offer.rule}"; give that rule, or a narrower one')
    if match(rule, tool, args, offer.subjects) is not Match.YES:
        raise RuleInvalid(f'"{text}" does not fit the call that was asked about; "{offer.rule}" does')
    return text.strip()


def _is_within(rule: Rule, widest: Rule, subjects: Sequence[str] | None) -> bool:
    """Whether every call that `rule` fits is one that `widest` fits. That one has no wildcard but a `*` at its end."""
    if rule.tool != widest.tool or widest.pattern is None or rule.pattern is None:
        return rule.tool == widest.tool and widest.pattern is None
    if subjects is None:
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

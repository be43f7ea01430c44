"""Converts the `remember` of an answer to the grant that is recorded with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_md.agents.grant_rules import checked_rule
from agent_md.agents.rules import RuleInvalid
from agent_md.agents.value_formats import duration
from agent_md.errors import AnswerRefused
from agent_md.executions.grants import DEFAULT_UNTIL, NEVER, GrantScope, NewGrant
from agent_md.executions.requests import Request
from agent_md.serialization import duration_text

__all__ = ["lasts", "new_grant", "remembered"]


def new_grant(request: Request, remember: Mapping[str, str], scopes: Sequence[GrantScope]) -> NewGrant:
    """The grant that an approval of this request gives. `scopes` are those that it may have, the default first.

    Raises AnswerRefused for a rule that is none, allows more than the request offers or does not fit its call, for a
    scope that it may not have, and for an end that is no duration.
    """
    offer = request.offer
    assert offer is not None, "validate_response refuses it"
    scope = GrantScope(remember.get("scope", scopes[0]))
    if scope not in scopes:
        raise AnswerRefused(
            f"a grant cannot have the scope {scope} here, only: {', '.join(scopes)}; nothing was answered"
        )
    try:
        rule = checked_rule(remember.get("rule", offer.rule), offer, request.tool_name or "", request.tool_args or {})
    except RuleInvalid as error:
        raise AnswerRefused(f"the rule cannot be given: {error}; nothing was answered") from None
    module = None if request.tool_source is None else request.tool_source.module
    return NewGrant(rule, scope, lasts(remember.get("until", DEFAULT_UNTIL)), offer.tool_digest, module)


def lasts(until: str) -> float | None:
    """Seconds that a grant lasts; None = without end, for `never`. Raises AnswerRefused."""
    if until == NEVER:
        return None
    try:
        seconds = duration(until)
    except ValueError as error:
        raise AnswerRefused(f"the end of a grant: {error}; or write {NEVER}. Nothing was answered") from None
    if not seconds:
        raise AnswerRefused(f"the end of a grant: {until} is no time at all; nothing was answered")
    return seconds


def remembered(grant: NewGrant) -> dict[str, str]:
    """The `remember` of the answer that gives this grant, nothing left out."""
    return {"rule": grant.rule, "scope": str(grant.scope), "until": duration_text(grant.lasts) or NEVER}

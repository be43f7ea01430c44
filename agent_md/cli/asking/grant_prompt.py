"""The dialogue that gives a grant: shows rule, scope and end, and asks for a second `y`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from agent_md.agents.rules import parse_rule
from agent_md.cli.asking.prompt import TerminalPrompt
from agent_md.cli.views.hanging_indent import paragraph
from agent_md.cli.views.questions import QuestionText
from agent_md.errors import AnswerRefused, UsageError
from agent_md.executions.grants import DEFAULT_UNTIL, NEVER, GrantScope
from agent_md.executions.requests import Request
from agent_md.runner.record_grant import lasts, new_grant, remembered
from agent_md.visible_text import one_line

__all__ = [
    "GrantOptions",
    "GrantTerms",
    "Step",
    "ask_grant",
    "first_terms",
    "grant_question",
    "local_granting",
    "parse_step",
    "remote_granting",
    "wants_grant",
]

_TIME = re.compile(r"[0-9]+[a-z]?|never", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GrantOptions:
    """What an approval may allow from now on: the scopes, the default first, and how what is to be remembered is checked
    and completed; that raises AnswerRefused."""

    scopes: Sequence[GrantScope]
    checked: Callable[[Mapping[str, str]], dict[str, str]]


@dataclass(frozen=True, slots=True)
class GrantTerms:
    """What is shown, and would be allowed by a `y`."""

    rule: str
    scope: GrantScope
    until: str

    def remember(self) -> dict[str, str]:
        return {"rule": self.rule, "scope": str(self.scope), "until": self.until}


@dataclass(frozen=True, slots=True)
class Step:
    """What a typed line does: `agreed` allows what was shown, `terms` are to be shown instead; neither goes back."""

    agreed: bool = False
    terms: GrantTerms | None = None


def local_granting(request: Request, scopes: Sequence[GrantScope]) -> GrantOptions:
    """For a request of this workspace."""
    return GrantOptions(scopes, lambda remember: remembered(new_grant(request, remember, scopes)))


def remote_granting() -> GrantOptions:
    """For a request of a server of sessions, which checks the rest when it is answered."""

    def checked(remember: Mapping[str, str]) -> dict[str, str]:
        try:
            parse_rule(remember["rule"])
        except UsageError as error:
            raise AnswerRefused(str(error)) from None
        lasts(remember["until"])
        return dict(remember)

    return GrantOptions((GrantScope.SESSION,), checked)


def wants_grant(line: str) -> bool:
    """Whether a line typed at a confirmation asks for a grant."""
    return line.strip().lower() in ("a", "always")


def first_terms(request: Request, granting: GrantOptions) -> GrantTerms:
    """What is shown first. Raises AnswerRefused for a request that offers nothing."""
    if request.offer is None:
        raise AnswerRefused(
            "calls like this one cannot be allowed from now on: no rule says exactly this call; answer y or n"
        )
    return GrantTerms(request.offer.rule, granting.scopes[0], DEFAULT_UNTIL)


def grant_question(terms: GrantTerms, granting: GrantOptions) -> QuestionText:
    """The terms in lines, what can be typed, and the question."""
    others = [str(scope) for scope in granting.scopes if scope is not terms.scope]
    until = "never ends" if terms.until == NEVER else f"ends after {terms.until}"
    also = f"  (or {', '.join(others)})" if others else ""
    lines = (
        paragraph(f"  rule   {one_line(terms.rule)}"),
        paragraph(f"  scope  this {terms.scope}{also}"),
        paragraph(f"  end    {until}  (or 30m, 2d, {NEVER})"),
        paragraph("  y allows this, n goes back; a narrower rule, a scope or a time changes it", "dim"),
    )
    return QuestionText((), lines, "? Allow this without asking [y/N]: ")


async def ask_grant(terms: GrantTerms, prompt: TerminalPrompt, granting: GrantOptions) -> dict[str, str] | None:
    """What is to be remembered, as it was agreed to; None if nothing is. Raises PromptClosed."""
    while True:
        question = grant_question(terms, granting)
        step = await prompt.ask(question, partial(parse_step, terms=terms, granting=granting))
        if step.terms is None:
            return terms.remember() if step.agreed else None
        terms = step.terms


def parse_step(line: str, terms: GrantTerms, granting: GrantOptions) -> Step:
    """What the line does. Raises AnswerRefused for terms that cannot be allowed, and for several lines."""
    answer = line.strip()
    if "\n" in line:
        raise AnswerRefused("answer y or n, or type one rule, scope or time")
    if answer.lower() in ("y", "yes"):
        return Step(agreed=True)
    if answer.lower() in ("", "n", "no"):
        return Step()
    if answer.lower() in tuple(GrantScope):
        changed = replace(terms, scope=GrantScope(answer.lower()))
    elif _TIME.fullmatch(answer):
        changed = replace(terms, until=answer.lower())
    else:
        changed = replace(terms, rule=answer)
    if changed.scope not in granting.scopes:
        raise AnswerRefused(f"the scope can be here: {', '.join(granting.scopes)}")
    kept = granting.checked(changed.remember())
    return Step(terms=GrantTerms(kept["rule"], GrantScope(kept["scope"]), kept["until"]))

"""Daily money limits: decides whether another model call fits, and describes refused runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent_md.executions.states import TriggerKind

__all__ = [
    "DAILY_LIMIT",
    "LATE_S",
    "Account",
    "Budget",
    "BudgetVerdict",
    "DayLimit",
    "Refusal",
    "RefusalKind",
    "Scope",
    "Spending",
    "Verdict",
    "judge",
    "mark_passed",
]

DAILY_LIMIT = "max_cost_usd_per_day"
LATE_S = 7 * 86_400.0
"""How long a turn says what the next one may cost, in seconds."""

_ROUNDING = 1e-9
_MARKS = (1.0, 0.8)
"""The shares of a limit at which the log is told."""


class Scope(StrEnum):
    """Whose calls count for a limit: those of one agent, with what it called, or all."""

    AGENT = "agent"
    ROOT = "root"
    """As AGENT, of the agent at the top of the family of the execution that calls."""
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class DayLimit:
    """US dollars that may be spent in a day."""

    scope: Scope
    amount: float

    def __str__(self) -> str:
        """As people are told of it: `max_cost_usd_per_day is $5`."""
        of = {Scope.AGENT: "", Scope.ROOT: " of the agent at the top", Scope.WORKSPACE: " of the workspace"}[self.scope]
        return f"{DAILY_LIMIT}{of} is ${self.amount:g}"


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits for one call: each applies to the amount spent since `since`; turns of the agent since `late` show the
    cost of a call. `price` is the estimate for this call, None = its model has no price; `is_bound`: it cannot cost
    more."""

    limits: tuple[DayLimit, ...]
    since: float
    late: float
    price: float | None = 0.0
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """Money in one scope: `spent` since the day began, None = the cost of one call is unknown; `held` for calls of others
    that are under way, or wait already."""

    spent: float | None
    held: float = 0.0


@dataclass(frozen=True, slots=True)
class Spending:
    """What the store knows of money, for each scope that is limited. `dearest` of the agent's turns of late, None = there
    was none."""

    accounts: Mapping[Scope, Account]
    dearest: float | None = None


class Verdict(StrEnum):
    """Whether a call may be made."""

    FITS = "fits"
    WAIT = "wait"
    """Not until calls that are under way have ended, which may cost less than is held for them."""
    OVER = "over"


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """The verdict; `amount` is to be held for the call, infinite = all that is left; `reason` says why it may never be
    made."""

    verdict: Verdict
    amount: float = 0.0
    reason: str = ""


def judge(budget: Budget, spending: Spending) -> BudgetVerdict:
    """Whether a call fits under every limit with the larger of its price and the agent's dearest turn of late.

    A call of which nobody knows what it may cost takes all that is left: the first of an agent is made alone.
    """
    known = budget.is_bound or spending.dearest is not None
    amount = max(budget.price or 0.0, spending.dearest or 0.0) if known else math.inf
    for limit in budget.limits:
        if reason := _over(limit, spending.accounts[limit.scope].spent, budget.price, amount):
            return BudgetVerdict(Verdict.OVER, amount, f"{limit}, {reason}")
    fits = all(_fits(limit, spending.accounts[limit.scope], amount) for limit in budget.limits)
    return BudgetVerdict(Verdict.FITS if fits else Verdict.WAIT, amount)


def _over(limit: DayLimit, spent: float | None, price: float | None, amount: float) -> str:
    """Why a call may never be made; empty if it may."""
    if price is None:
        return "and the price of the model is unknown"
    if spent is None:
        return "and the cost so far today is unknown"
    if spent >= limit.amount:
        return f"and ${spent:g} are spent today"
    if math.isfinite(amount) and spent + amount > limit.amount + _ROUNDING:
        return f"${spent:g} are spent today, and the next call may cost ${amount:g}"
    return ""


def _fits(limit: DayLimit, account: Account, amount: float) -> bool:
    spent = account.spent or 0.0
    return spent + account.held + min(amount, limit.amount - spent) <= limit.amount + _ROUNDING


def mark_passed(limit: DayLimit, before: float, after: float) -> str | None:
    """The log message when a call raised the amount of the day from `before` to `after`: 80 % of the limit are spent,
    or all of it. None if neither was reached."""
    if not any(before < share * limit.amount <= after for share in _MARKS):
        return None
    return f"{limit}, and ${after:g} are spent today ({after / limit.amount:.0%})"


class RefusalKind(StrEnum):
    """Why a run was refused that was asked for properly."""

    BUDGET = "budget"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A run that was not created. `id` counts up and never comes again; `at` in seconds since 1970."""

    id: int
    agent: str
    trigger: TriggerKind
    session_id: str | None
    kind: RefusalKind
    reason: str
    at: float

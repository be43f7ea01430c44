"""A limit on the money of a day: whether one more call of a model fits under it, and the runs that did not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent_md.executions.model import TriggerKind

__all__ = ["DAILY_LIMIT", "LATE_S", "Budget", "Judgement", "Refusal", "RefusalKind", "Spending", "Verdict", "judge"]

DAILY_LIMIT = "max_cost_usd_per_day"
LATE_S = 7 * 86_400.0
"""How long a turn says what the next one may cost, in seconds."""

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Budget:
    """What limits one call: `limit` US dollars for all executions of the agent since `since`; turns since `late` say what
    a call costs. `price` is what is known beforehand of this one; `is_bound`: it cannot cost more."""

    limit: float
    since: float
    late: float
    price: float = 0.0
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Spending:
    """What the store knows of an agent's money. `spent` since the day began, None = the cost of one call is unknown;
    `held` for calls of others that are under way; `dearest` of the turns of late, None = there was none."""

    spent: float | None
    held: float = 0.0
    dearest: float | None = None


class Verdict(StrEnum):
    """Whether a call may be made."""

    FITS = "fits"
    WAIT = "wait"
    """Not until calls that are under way have ended, which may cost less than is held for them."""
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict; `amount` is to be held for the call, `reason` says why it may never be made."""

    verdict: Verdict
    amount: float = 0.0
    reason: str = ""


def judge(budget: Budget, spending: Spending) -> Judgement:
    """Whether a call fits under the limit with the larger of its price and the agent's dearest turn of late.

    A call of which nobody knows what it may cost takes all that is left: the first of an agent is made alone.
    """
    limit, spent = budget.limit, spending.spent
    if spent is None:
        return Judgement(Verdict.OVER, reason=f"{DAILY_LIMIT} is ${limit:g}, and the cost so far today is unknown")
    if spent >= limit:
        return Judgement(Verdict.OVER, reason=f"{DAILY_LIMIT} is ${limit:g}, and ${spent:g} are spent today")
    unknown = spending.dearest is None and not budget.is_bound
    amount = max(budget.price, spending.dearest or 0.0, limit - spent if unknown else 0.0)
    if spent + amount > limit + _ROUNDING:
        reason = f"{DAILY_LIMIT} is ${limit:g}, ${spent:g} are spent today, and the next call may cost ${amount:g}"
        return Judgement(Verdict.OVER, amount, reason)
    fits = spent + spending.held + amount <= limit + _ROUNDING
    return Judgement(Verdict.FITS if fits else Verdict.WAIT, amount)


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

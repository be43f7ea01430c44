"""The delays between attempts: growing, randomised, for an hour after the first attempt."""

from __future__ import annotations

from agent_md.executions.deliveries import Delivery

__all__ = ["GIVE_UP_AFTER_S", "next_attempt"]

GIVE_UP_AFTER_S = 3600.0
_FIRST_S = 2.0
_LONGEST_S = 300.0
_SPREAD = 0.25


def next_attempt(delivery: Delivery, now: float, *, retry_after: float | None, chance: float) -> float | None:
    """When to try again after an attempt that failed `now`; None = give up, the hour is over.

    The wait is 2 s, then double that each time, up to 5 minutes; up to a quarter more or less as `chance` (0 to 1) has
    it; at least `retry_after` seconds, if the receiver asked for that. The last attempt is at the end of the hour.
    """
    end = delivery.first_at + GIVE_UP_AFTER_S
    if now >= end:
        return None
    wait = min(_LONGEST_S, _FIRST_S * 2.0 ** min(delivery.attempts - 1, 16))
    wait *= 1 + _SPREAD * (2 * chance - 1)
    return min(end, now + max(wait, retry_after or 0.0))

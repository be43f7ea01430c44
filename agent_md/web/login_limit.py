"""Limits how often keys may be guessed."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["LoginLimit"]

_ADDRESSES = 1024
"""Addresses whose failures are remembered; the oldest are forgotten first."""


class LoginLimit:
    """At most so many failed logins within a time, of one address and of all together."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        of_one: int = 5,
        of_all: int = 100,
        seconds: float = 60.0,
    ) -> None:
        """`clock` in seconds, never set back."""
        self._clock = clock
        self._of_one = of_one
        self._of_all = of_all
        self._seconds = seconds
        self._failures: OrderedDict[str, list[float]] = OrderedDict()
        self._all: list[float] = []

    def wait_for(self, address: str) -> float:
        """Seconds until the address may try again; 0 if it may now."""
        now = self._clock()
        own = self._recent(self._failures.get(address, []), now)
        self._all = self._recent(self._all, now)
        full = [times for times, most in ((own, self._of_one), (self._all, self._of_all)) if len(times) >= most]
        return max((times[0] + self._seconds - now for times in full), default=0.0)

    def note_failure(self, address: str) -> None:
        now = self._clock()
        self._failures[address] = [*self._recent(self._failures.pop(address, []), now), now]
        self._all.append(now)
        while len(self._failures) > _ADDRESSES:
            self._failures.popitem(last=False)

    def _recent(self, times: list[float], now: float) -> list[float]:
        return [at for at in times if at > now - self._seconds]

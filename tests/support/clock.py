"""A clock that stands still until it is told to go on."""

from __future__ import annotations

__all__ = ["ManualClock"]


class ManualClock:
    """The `Clock` port: gives `now`, seconds since 1970 UTC, until `advance` moves it."""

    def __init__(self, now: float = 1_760_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

"""Waiting for what another process or task does, without guessing how long it takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["eventually", "until"]

_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 0.2


def until(condition: Callable[[], object], patience: float = 90.0) -> None:
    """Returns as soon as the condition holds; fails if it does not within `patience` seconds."""
    deadline = time.monotonic() + patience
    began = time.monotonic()
    while not condition():
        asked = time.monotonic()
        if asked > deadline:
            raise AssertionError(f"not within {patience} s: {condition}")
        # Asking takes a third of a processor at most: who is waited for needs the rest.
        time.sleep(min(_LONGEST_PAUSE_S, max(_PAUSE_S, 2 * (asked - began))))
        began = time.monotonic()


async def eventually(condition: Callable[[], object], patience: float = 90.0) -> None:
    """As `until`, and lets the other tasks of this process work meanwhile."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {condition}")
        await asyncio.sleep(0.001)

"""Waiting for what another process does, without guessing how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["until"]


def until(condition: Callable[[], object], patience: float = 30.0) -> None:
    """Returns as soon as the condition holds; fails if it does not within `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {patience} s: {condition}")
        time.sleep(0.01)

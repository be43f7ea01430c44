"""The clock of the store and the triggers."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Clock"]

Clock = Callable[[], float]
"""Seconds since 1970 UTC."""

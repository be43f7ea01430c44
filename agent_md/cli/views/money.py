"""Formats costs for people."""

from __future__ import annotations

__all__ = ["dollars"]

_SMALLEST = 0.0001


def dollars(cost: float | None) -> str:
    """`$0.0012`; an unknown cost is said to be that, never 0, and a small one never looks like none."""
    if cost is None:
        return "unknown cost"
    return f"<${_SMALLEST}" if 0 < cost < _SMALLEST / 2 else f"${cost:.4f}"

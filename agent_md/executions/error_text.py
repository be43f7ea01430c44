"""Cleans error texts of other programs before they are stored."""

from __future__ import annotations

__all__ = ["LONGEST_ERROR", "bounded"]

LONGEST_ERROR = 60_000
"""Characters of an error of a model or a tool that are kept: all of any that a person reads."""


def bounded(text: str, limit: int = LONGEST_ERROR) -> str:
    """The text without blanks around it, whole; of one that is longer than `limit` the beginning, and how much more."""
    whole = text.strip()
    left = len(whole) - limit
    return whole if left <= 0 else f"{whole[:limit]}… ({left} more characters)"

"""Values that options may have."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["OnAskChoice"]


class OnAskChoice(StrEnum):
    """What to do with a question that nobody can be asked."""

    WAIT = "wait"
    DENY = "deny"
    FAIL = "fail"

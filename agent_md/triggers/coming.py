"""The fires to come, of several agents at once."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import islice

from agent_md.agents.spec import AgentSpec
from agent_md.ports import Firings
from agent_md.triggers.schedules import Coming, coming_fires

__all__ = ["coming", "instant_of"]


def coming(firings: Firings | None, specs: Sequence[AgentSpec], after: float, count: int) -> list[Coming]:
    """The next `count` fires after the instant `after`, in the order of their times, then of the agents."""
    lines = [coming_fires(firings, spec, after) for spec in specs if spec.trigger.type == "schedule"]
    return list(islice(heapq.merge(*lines, key=lambda fire: fire.at), count))


def instant_of(text: str, zone: tzinfo | None) -> float:
    """Seconds since 1970 of a time in ISO 8601; one without an offset is of `zone`. Raises ValueError."""
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; write it as 2026-03-29, 2026-03-29T02:30 or with an offset") from None

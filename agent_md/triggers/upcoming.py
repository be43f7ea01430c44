"""The next fires of several agents."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import islice

from agent_md.agents.spec import AgentSpec
from agent_md.ports.firings import Firings
from agent_md.triggers.schedules import UpcomingFire, coming_fires

__all__ = ["coming"]


def coming(firings: Firings | None, specs: Sequence[AgentSpec], after: float, count: int) -> list[UpcomingFire]:
    """The next `count` fires after the instant `after`, in the order of their times, then of the agents."""
    lines = [coming_fires(firings, spec, after) for spec in specs if spec.trigger.type == "schedule"]
    return list(islice(heapq.merge(*lines, key=lambda fire: fire.at), count))

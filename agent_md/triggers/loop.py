"""The loop of a server that makes firings and starts them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from agent_md.errors import AgentmdError
from agent_md.ports import Clock
from agent_md.triggers.schedules import Scheduler
from agent_md.triggers.starting import FiringStarter

__all__ = ["TriggerLoop"]

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""How often is looked for what no alarm tells: a step of the clock, a pause that ended, another process's firing."""
_SHORTEST_S = 0.01


class TriggerLoop:
    """Looks at what is due, at its time and at least once a second."""

    def __init__(
        self, scheduler: Scheduler, starter: FiringStarter, started: Callable[[], object], clock: Clock = time.time
    ) -> None:
        """`started` is called when executions were created."""
        self._scheduler = scheduler
        self._starter = starter
        self._started = started
        self._clock = clock

    async def run(self) -> None:
        """Works until cancelled. What cannot be stored now is tried again."""
        while True:
            pause = self.look()
            await asyncio.sleep(pause)

    def look(self) -> float:
        """Makes and starts what is due, and gives the seconds until the next look."""
        try:
            following = self._scheduler.look()
            if self._starter.start_due():
                self._started()
        except AgentmdError as error:
            log.warning("the triggers could not be looked at: %s; trying again", error)
            return _LOOK_S
        if following is None:
            return _LOOK_S
        return min(_LOOK_S, max(_SHORTEST_S, following - self._clock()))

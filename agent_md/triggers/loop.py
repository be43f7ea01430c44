"""The loop of a server that creates firings of schedules and starts all firings."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from agent_md.errors import AgentmdError
from agent_md.ports.clock import Clock
from agent_md.triggers.schedules import Scheduler
from agent_md.triggers.start_or_skip import FiringStarter

__all__ = ["TriggerLoop"]

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""How often is looked for what no alarm tells: a step of the clock, a pause that ended, another process's firing."""
_SHORTEST_S = 0.01

Aside = Callable[[Callable[[], Any]], Awaitable[Any]]


async def _here(function: Callable[[], Any]) -> Any:
    return function()


class TriggerLoop:
    """Looks at what is due, at its time and at least once a second."""

    def __init__(
        self,
        scheduler: Scheduler,
        starter: FiringStarter,
        started: Callable[[], object],
        clock: Clock = time.time,
        *,
        aside: Aside = _here,
    ) -> None:
        """`started` is called on the event loop when executions were created. What is due is started `aside`: that reads
        files of others and loads their tools."""
        self._scheduler = scheduler
        self._starter = starter
        self._started = started
        self._clock = clock
        self._aside = aside
        self._woken = asyncio.Event()

    async def run(self) -> None:
        """Works until cancelled. What cannot be stored now is tried again."""
        while True:
            self._woken.clear()
            pause, any_started = await self._aside(self._look)
            if any_started:
                self._started()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), pause)

    def wake(self) -> None:
        """Makes the next look come now."""
        self._woken.set()

    def look(self) -> float:
        """Makes and starts what is due, and gives the seconds until the next look."""
        pause, any_started = self._look()
        if any_started:
            self._started()
        return pause

    def _look(self) -> tuple[float, bool]:
        """Also gives whether executions were created."""
        try:
            following = self._scheduler.look()
            any_started = bool(self._starter.start_due())
        except AgentmdError as error:
            log.warning("the triggers could not be looked at: %s; trying again", error)
            return _LOOK_S, False
        if following is None:
            return _LOOK_S, any_started
        return min(_LOOK_S, max(_SHORTEST_S, following - self._clock())), any_started

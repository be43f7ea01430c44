"""Sends the deliveries of the outbox, as tasks of one process."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from agent_md.errors import AgentmdError
from agent_md.executions.deliveries import Delivery
from agent_md.executions.ids import WorkerId
from agent_md.ports.clock import Clock
from agent_md.ports.outbox import Outbox
from agent_md.webhooks.attempts import Attempts
from agent_md.webhooks.derive import Deriver

__all__ = ["Changes", "WebhookSender"]

log = logging.getLogger(__name__)

_LOOK_S = 1.0
_SHORTEST_S = 0.01
_PLACES = 32
_PLACES_A_LANE = 4
_PLACES_TO_REPEAT = 16
"""Those that failed before take no more places than these: receivers that are dead leave some to all others."""


class Changes(Protocol):
    """Tells that the store has changed, whoever changed it."""

    @property
    def generation(self) -> int:
        """Counts changes."""

    async def wait(self, seen: int, timeout: float) -> None:
        """Returns when there was a change after generation `seen`, or after `timeout` seconds."""


class WebhookSender:
    """Delivers at most 32 at once, at most 4 to one receiver and at most 16 that failed before: those that are slow or
    dead delay no other."""

    def __init__(
        self,
        outbox: Outbox,
        deriver: Deriver,
        attempts: Attempts,
        worker: WorkerId,
        *,
        clock: Clock,
    ) -> None:
        self._outbox = outbox
        self._deriver = deriver
        self._attempts = attempts
        self._worker = worker
        self._clock = clock
        self._under_way: dict[str, Delivery] = {}
        """The deliveries that are being made, by event id."""
        self._tasks: set[asyncio.Task[bool]] = set()
        self._stopping = False
        self._draining = False
        self._refused: dict[str, tuple[Delivery, str]] = {}
        """What was refused while draining, by event id, with why; it is not begun again by this process."""

    async def run(self, changes: Changes) -> None:
        """Delivers until cancelled, woken by `changes`; never raises. What is cut then is sent by the next one that runs."""
        try:
            while True:
                seen = changes.generation
                self._look()
                await changes.wait(seen, self._pause())
        finally:
            await self._cut()

    async def drain(self, patience: float) -> Sequence[tuple[Delivery, str]]:
        """Delivers what is due, or comes due, within `patience` seconds; never raises. The rest is sent by the next one
        that runs. Gives those deliveries whose address must not be reached, which are not waited for, with why."""
        self._draining = True
        try:
            async with asyncio.timeout(patience):
                while True:
                    self._look()
                    if self._tasks:
                        await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                        continue
                    due = self._outbox.next_due(mine=self._passed_over())
                    if due is None or due - self._clock() > patience:
                        break
                    await asyncio.sleep(self._pause())
        except TimeoutError:
            log.info("not all webhooks were delivered within %g s", patience)
        except AgentmdError as error:
            log.warning("the outbox cannot be used: %s", error)
        finally:
            await self._cut()
        return list(self._refused.values())

    def _passed_over(self) -> list[str]:
        """The ids of deliveries that must not be started: running or refused ones."""
        return [*self._under_way, *self._refused]

    async def _cut(self) -> None:
        self._stopping = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping = False

    def _look(self) -> None:
        try:
            self._deriver.catch_up()
            self._begin()
        except AgentmdError as error:
            log.warning("the outbox cannot be used: %s; trying again", error)
        except Exception:
            log.exception("the outbox cannot be looked through; trying again")

    def _begin(self) -> None:
        """Begins what is due, as far as there is place."""
        while len(self._tasks) < _PLACES:
            due = self._outbox.next_due(mine=self._passed_over())
            if due is None or due > self._clock():
                return
            lanes = Counter(delivery.lane for delivery in self._under_way.values())
            full = [lane for lane, count in lanes.items() if count >= _PLACES_A_LANE]
            repeated = sum(delivery.attempts > 1 for delivery in self._under_way.values())
            delivery = self._outbox.claim(
                self._worker, mine=self._passed_over(), full=full, first=repeated >= _PLACES_TO_REPEAT
            )
            if delivery is None:
                return
            self._under_way[delivery.event_id] = delivery
            task = asyncio.create_task(self._attempt(delivery))
            self._tasks.add(task)
            task.add_done_callback(partial(self._ended, delivery.event_id))

    async def _attempt(self, delivery: Delivery) -> bool:
        """Whether what came of it was recorded; if not, it is sent again at a later look."""
        try:
            refused = await self._attempts.make(delivery)
        except AgentmdError as error:
            log.warning("webhook %s: what came of it cannot be stored: %s", delivery.event_id, error)
            return False
        except Exception:
            log.exception("webhook %s: the attempt failed", delivery.event_id)
            return False
        if refused is not None and self._draining:
            self._refused[delivery.event_id] = delivery, refused
        return True

    def _ended(self, event_id: str, task: asyncio.Task[bool]) -> None:
        del self._under_way[event_id]
        self._tasks.discard(task)
        if not self._stopping and not task.cancelled() and task.result():
            self._look()

    def _pause(self) -> float:
        """Seconds until something is due; what is due already waits for an attempt to end."""
        try:
            due = self._outbox.next_due(mine=self._passed_over())
        except AgentmdError:
            return _LOOK_S
        left = _LOOK_S if due is None else due - self._clock()
        return _LOOK_S if left <= 0 else max(_SHORTEST_S, min(_LOOK_S, left))

"""Drives the executions of one store as tasks of one process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from agent_md.engines.hub import Hub
from agent_md.errors import AgentmdError, ClaimLost, UsageError
from agent_md.executions.model import Claim, ExecutionId, Status, WorkerId
from agent_md.ports import Store
from agent_md.runner.advance import Runner

__all__ = ["LocalEngine"]

log = logging.getLogger(__name__)

_SWEEP_S = 1.0
"""The longest time until something is noticed that no change of the store tells: a death, a deadline."""
_REFUSED_S = 30.0
"""How long an execution is left alone that this process cannot drive (no key for its model)."""


class LocalEngine:
    """`agent_md.ports.Engine` on one event loop: at most `max_concurrent` executions at once; one that waits takes no
    place."""

    def __init__(
        self,
        store: Store,
        runner: Runner,
        hub: Hub,
        worker: WorkerId,
        *,
        max_concurrent: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._runner = runner
        self._hub = hub
        self._worker = worker
        self._places = max_concurrent
        self._clock = clock
        self._tasks: dict[ExecutionId, asyncio.Task[None]] = {}
        self._unsettled: set[ExecutionId] = set()
        self._refused: dict[ExecutionId, float] = {}

    @property
    def driven(self) -> frozenset[ExecutionId]:
        """What is driven here now."""
        return frozenset(self._tasks)

    def sweep(self) -> None:
        """Settles what is overdue, gives back what could not be stored before, and takes what nobody drives.

        Errors of the store are logged, and tried again at the next sweep.
        """
        try:
            self._store.settle_overdue()
            for execution_id in tuple(self._unsettled):
                self._give_back(execution_id)
            self._take()
        except AgentmdError:
            log.exception("the executions could not be looked through; trying again")

    async def run(self) -> None:
        """Drives until cancelled; `stop` ends what is under way."""
        while True:
            seen = self._hub.generation
            self.sweep()
            await self._hub.wait(seen, self._next_sweep())

    async def stop(self, grace: float) -> None:
        """Lets what is under way end for `grace` seconds; the rest is cut, and its executions are queued again."""
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _next_sweep(self) -> float:
        try:
            deadline = self._store.next_deadline()
        except AgentmdError:
            return _SWEEP_S
        return _SWEEP_S if deadline is None else max(0.0, min(_SWEEP_S, deadline - self._clock()))

    def _take(self) -> None:
        now = time.monotonic()
        for execution in self._store.abandoned():
            if len(self._tasks) >= self._places:
                return
            if execution.id in self._tasks or self._refused.get(execution.id, 0.0) > now:
                continue
            claim = self._store.claim(execution.id, self._worker)
            if claim is not None:
                self._tasks[execution.id] = asyncio.create_task(self._drive(claim))

    async def _drive(self, claim: Claim) -> None:
        try:
            await self._runner.advance(claim, self._hub)
        except UsageError as error:
            log.warning("execution %s cannot be driven here: %s", claim.execution_id, error)
            self._refused[claim.execution_id] = time.monotonic() + _REFUSED_S
        except ClaimLost:
            log.warning("execution %s was taken by another process", claim.execution_id)
        except Exception:
            log.exception("execution %s: its state could not be stored", claim.execution_id)
            self._unsettled.add(claim.execution_id)
        finally:
            del self._tasks[claim.execution_id]
            self._hub.stored()

    def _give_back(self, execution_id: ExecutionId) -> None:
        execution = self._store.execution(execution_id)
        if execution.status is Status.RUNNING and execution.worker == self._worker:
            claim = Claim(execution_id, self._worker, execution.epoch)
            self._store.journal(claim).release(counted=False)
        self._unsettled.discard(execution_id)

"""Drives the executions of one store as tasks of one process."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from agent_md.engines.hub import Hub
from agent_md.errors import AgentmdError, ClaimLost, OutOfResources, UsageError
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.states import Status
from agent_md.ports.store import Store
from agent_md.runner.loop import Runner

__all__ = ["DriveAlone", "LocalEngine"]

log = logging.getLogger(__name__)

_LOOK_S = 0.5
"""How often is looked for what no change of the store tells: a death, a deadline."""
_SHORTEST_S = 0.01
_REFUSED_S = 30.0
"""How long an execution is left alone that this process cannot drive (no key for its model)."""
_FAILED_S = 1.0
"""How long an execution is left alone whose state could not be stored."""
_SHORT_S = 5.0
"""How long an execution is left alone for which this process had not enough memory, threads or files."""
_MOST_ALONE = 2

DriveAlone = Callable[[ExecutionId], Awaitable[None]]
"""Drives a suspect in a process of its own, until it is none any more and nothing of it is in flight, or it ends or waits;
returns when that process has ended, however it did. Raises UsageError if that process could not drive it. When cancelled
it ends the process, and returns after it."""


class LocalEngine:
    """`agent_md.ports.Engine` on one event loop: at most `max_concurrent()` executions at once, the oldest first; one
    that waits takes no place. Suspects are driven in processes of their own, two at once, so that they end nobody else."""

    def __init__(
        self,
        store: Store,
        runner: Runner,
        hub: Hub,
        worker: WorkerId,
        *,
        max_concurrent: Callable[[], int],
        drive_alone: DriveAlone,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._runner = runner
        self._hub = hub
        self._worker = worker
        self._places = max_concurrent
        self._drive_alone = drive_alone
        self._clock = clock
        self._leaving = False
        self._alone: dict[ExecutionId, asyncio.Task[None]] = {}
        self._tasks: dict[ExecutionId, asyncio.Task[None]] = {}
        self._resting: dict[ExecutionId, float] = {}
        self._next_look = 0.0

    def sweep(self) -> None:
        """Settles overdue requests, releases claims of this process that are not driven, and claims executions that
        nobody drives.

        Errors of the store are logged, and the next sweep tries again."""
        try:
            if time.monotonic() >= self._next_look:
                self._look()
            self._take()
        except AgentmdError:
            log.exception("the executions could not be looked through; trying again")

    async def run(self) -> None:
        """Drives until cancelled; `stop` ends what is under way."""
        while True:
            seen = self._hub.generation
            self.sweep()
            await self._hub.wait(seen, max(_SHORTEST_S, self._next_look - time.monotonic()))

    async def close(self, execution_id: ExecutionId) -> Execution:
        """Ends an execution that was asked to be cancelled, and all below it, as far as nobody drives them; gives it as it
        is then."""
        family = [member.id for member in self._store.family(execution_id)]
        claims = [self._store.claim_to_cancel(member, self._worker, suspects=False) for member in family]
        closing = {self._start(claim) for claim in claims if claim is not None}
        if closing:
            await asyncio.wait(closing)
        else:
            self._take()  # a suspect is closed where it can do no harm
        return self._store.execution(execution_id)

    async def stop(self, grace: float, *, hand_over: bool = False) -> None:
        """Lets running executions end for `grace` seconds; the others are cut off and queued again. With `hand_over`
        they are queued as soon as nothing of them is in flight, and start no model call."""
        self._leaving = hand_over
        tasks = {*self._tasks.values(), *self._alone.values()}
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _look(self) -> None:
        self._next_look = time.monotonic() + _LOOK_S
        if self._store.settle_overdue():
            self._hub.stored()
        for execution in self._store.executions(statuses=(Status.RUNNING,)):
            if execution.worker == self._worker and execution.id not in self._tasks:
                self._store.journal(Claim(execution.id, self._worker, execution.epoch)).release()
        deadline = self._store.next_deadline()
        if deadline is not None:
            left = max(_SHORTEST_S, deadline - self._clock())
            self._next_look = min(self._next_look, time.monotonic() + left)

    def _take(self) -> None:
        now = time.monotonic()
        self._resting = {execution_id: end for execution_id, end in self._resting.items() if end > now}
        self._store.settle_deaths()
        for execution in self._store.abandoned():
            if execution.id in self._tasks or execution.id in self._alone or execution.id in self._resting:
                continue
            if execution.suspect and not execution.died_too_often:
                self._isolate(execution.id)
            elif len(self._tasks) < self._places():
                # One that has died too often is ended here: that touches nothing that it could die of.
                claim = self._store.claim(execution.id, self._worker, suspects=execution.suspect)
                if claim is not None:
                    self._start(claim)

    def _isolate(self, execution_id: ExecutionId) -> None:
        if len(self._alone) < _MOST_ALONE:
            self._alone[execution_id] = asyncio.create_task(self._alone_until_it_is_clear(execution_id))

    async def _alone_until_it_is_clear(self, execution_id: ExecutionId) -> None:
        before = self._store.execution(execution_id).epoch
        try:
            await self._drive_alone(execution_id)
            if self._store.execution(execution_id).epoch == before:  # it did not come so far as to claim it
                self._rest(execution_id, _FAILED_S)
        except UsageError as error:
            log.warning("execution %s cannot be driven here: %s", execution_id, error)
            self._rest(execution_id, _REFUSED_S)
        except Exception:
            log.exception("execution %s: no process could be started for it", execution_id)
            self._rest(execution_id, _SHORT_S)
        finally:
            del self._alone[execution_id]
            self._hub.stored()

    def _start(self, claim: Claim) -> asyncio.Task[None]:
        task = asyncio.create_task(self._drive(claim))
        self._tasks[claim.execution_id] = task
        return task

    async def _drive(self, claim: Claim) -> None:
        try:
            await self._runner.advance(claim, self._hub, lambda: self._leaving)
        except OutOfResources as error:
            log.warning("%s", error)
            self._rest(claim.execution_id, _SHORT_S)
        except UsageError as error:
            log.warning("execution %s cannot be driven here: %s", claim.execution_id, error)
            self._rest(claim.execution_id, _REFUSED_S)
        except ClaimLost:
            log.warning("execution %s was taken by another process", claim.execution_id)
        except Exception:
            log.exception("execution %s: its state could not be stored", claim.execution_id)
            self._rest(claim.execution_id, _FAILED_S)
        finally:
            del self._tasks[claim.execution_id]
            self._hub.forget_text(claim.execution_id)
            self._hub.stored()

    def _rest(self, execution_id: ExecutionId, seconds: float) -> None:
        self._resting[execution_id] = time.monotonic() + seconds

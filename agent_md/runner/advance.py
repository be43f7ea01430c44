"""The one loop: starts an execution, resumes it, goes on after a crash. Every way out of it is a stored status."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_md.agents.spec import AgentSpec
from agent_md.errors import (
    AgentmdError,
    ClaimLost,
    LimitReached,
    ModelFailed,
    Poisoned,
    StoreError,
    UsageError,
    WorkTimeout,
)
from agent_md.executions.model import CallState, Claim, Execution, ExecutionId, RequestId, Status
from agent_md.graph.bench import Bench
from agent_md.graph.outcomes import closing
from agent_md.graph.thread import Thread
from agent_md.ports import Ending, Journal, ProgressSink, Store
from agent_md.runner.decide import Broken, Continue, Finished, Park, Seed, Wake, next_step
from agent_md.tools.base import Tool

if TYPE_CHECKING:
    from agent_md.stores.checkpoints import Checkpoints

__all__ = ["MAX_ATTEMPTS", "MakeBench", "OpenCheckpointer", "Runner"]

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 3
"""Drives in a row that may end without a new stored row; the next one stops the execution."""

_POLL_S = 0.05
_CANCEL_GRACE_S = 1.8
"""More than a tool that is given up needs at the most."""
_LONGEST_LAP_S = 1.0
"""The most time of work between two looks at the clock: what is more, the process was stopped."""

MakeBench = Callable[[Execution, AgentSpec, Journal, ProgressSink], Bench]
"""Makes the parts for one drive; raises nothing that depends on this process (its model call may raise UsageError)."""

OpenCheckpointer = Callable[[], "Checkpoints"]
"""Gives the checkpointer, opened when it is first asked for. Raises StoreError."""


class _CancelRequested(Exception):
    """Somebody asked to cancel the execution; `by` says who."""

    def __init__(self, by: str) -> None:
        super().__init__(by)
        self.by = by


class Runner:
    """Drives claimed executions, any number at once on one event loop."""

    def __init__(
        self, store: Store, checkpointer: OpenCheckpointer, make_bench: MakeBench, *, poll: float = _POLL_S
    ) -> None:
        self._store = store
        self._checkpointer = checkpointer
        self._make_bench = make_bench
        self._poll = poll

    async def advance(self, claim: Claim, sink: ProgressSink) -> Execution:
        """Drives the execution until it ends or waits, and gives it as it is then; the claim is given back.

        Raises UsageError with the execution queued again when this process cannot drive it (no key for its model);
        ClaimLost or StoreError when nothing can be stored any more. Cancelling this call gives the execution back as
        queued.
        """
        try:
            held: Claim | None = claim
            while held is not None:
                done = await self._attempt(held, sink)
                held = self._to_cancel(claim) if done else self._store.claim(claim.execution_id, claim.worker)
        finally:
            sink.stored()
        return self._store.execution(claim.execution_id)

    def _to_cancel(self, claim: Claim) -> Claim | None:
        """A claim on an execution that was to be cancelled at the moment it began to wait: nobody else would end it."""
        execution = self._store.execution(claim.execution_id)
        if execution.status is not Status.WAITING or execution.cancelled_by is None:
            return None
        return self._store.claim_to_cancel(claim.execution_id, claim.worker)

    async def _attempt(self, claim: Claim, sink: ProgressSink) -> bool:
        """One drive; False when it raised something unforeseen and the execution is queued for the next attempt."""
        journal = self._store.journal(claim)
        tools: Mapping[str, Tool] = {}
        try:
            execution = self._store.execution(claim.execution_id)
            bench = self._make_bench(execution, AgentSpec.from_json(self._store.spec(execution.id)), journal, sink)
            tools = bench.tools
            try:
                ending = await self._outcome(bench)
            finally:
                await bench.close()
            if ending is not None:
                journal.finish(ending)
        except ClaimLost:
            raise
        except StoreError:
            with suppress(ClaimLost, StoreError):  # a full disk says nothing of the execution: no attempt is counted
                journal.release(counted=False)
            raise
        except (UsageError, asyncio.CancelledError):
            journal.release(counted=False)
            raise
        except Exception as error:
            log.exception("execution %s: an attempt to drive it failed", claim.execution_id)
            if self._store.execution(claim.execution_id).attempts < MAX_ATTEMPTS:
                journal.release(counted=True)
                return False
            where = self._where(claim.execution_id)
            what = f"{type(error).__name__}: {error} ({where})"
            journal.finish(self._ending(claim.execution_id, tools, Status.ERROR, what))
        return True

    async def _outcome(self, bench: Bench) -> Ending | None:
        """Drives to the end or to a wait (None); what ends an execution on the way is turned into its ending."""
        try:
            self._refuse_hopeless(bench)
            finished = await self._supervise(bench)
        except _CancelRequested as request:
            reason = f"cancelled by {request.by}"
            return self._ending(bench.execution_id, bench.tools, Status.ABORTED, reason, ended_by=request.by)
        except LimitReached as error:
            return self._ending(bench.execution_id, bench.tools, Status.ABORTED, str(error))
        except WorkTimeout as error:
            return self._ending(bench.execution_id, bench.tools, Status.TIMEOUT, str(error))
        except (ModelFailed, Poisoned) as error:
            return self._ending(bench.execution_id, bench.tools, Status.ERROR, str(error))
        return None if finished is None else Ending(Status.SUCCESS, output=finished.output, cut=finished.cut)

    def _refuse_hopeless(self, bench: Bench) -> None:
        if bench.execution.cancelled_by is not None:
            raise _CancelRequested(bench.execution.cancelled_by)
        if bench.execution.attempts > MAX_ATTEMPTS:
            raise Poisoned(
                f"stopped as poisoned: {MAX_ATTEMPTS} attempts in a row ended without any progress, "
                f"at {self._where(bench.execution_id)}"
            )

    def _where(self, execution_id: ExecutionId) -> str:
        calls = [call for call in self._store.calls(execution_id) if not call.state.closed]
        if calls:
            started = next((call for call in calls if call.state is CallState.STARTED), calls[0])
            return f"call {started.position} ({started.tool})"
        turn = 0
        while self._store.model_step(execution_id, turn) is not None:
            turn += 1
        return f"model call {turn}"

    def _ending(
        self,
        execution_id: ExecutionId,
        tools: Mapping[str, Tool],
        status: Status,
        error: str,
        *,
        ended_by: str | None = None,
    ) -> Ending:
        calls = [call for call in self._store.calls(execution_id) if not call.state.closed]
        ends = [(call.position, closing(tools, call, self._store.steps(execution_id, call.position))) for call in calls]
        closings = tuple((position, end.state, end.outcome, end.text) for position, end in ends)
        return Ending(status, error=error, ended_by=ended_by, closings=closings)

    async def _supervise(self, bench: Bench) -> Finished | None:
        """Works until done, cancelled or out of time; gives the answer, or None when the execution waits.

        The time is added up look by look, so that one in which this process was stopped counts as one second.
        """
        timeout = bench.spec.settings.timeout
        used = bench.execution.work_ms / 1000
        looked = time.monotonic()
        version: int | None = None
        work = asyncio.create_task(self._work(bench))
        try:
            while not work.done():
                now = time.monotonic()
                used, looked = used + min(now - looked, _LONGEST_LAP_S), now
                if used >= timeout:
                    raise WorkTimeout(f"settings.timeout: {timeout:g} s of work are used up")
                if (current := self._store.version()) != version:
                    version = current
                    self._obey_cancel(bench.execution_id)
                await asyncio.wait({work}, timeout=self._poll)
            return await work
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=_CANCEL_GRACE_S)
            if work.done() and not work.cancelled():
                work.exception()  # seen here: whatever a stopped drive still raised is of no interest

    def _obey_cancel(self, execution_id: ExecutionId) -> None:
        by = self._store.execution(execution_id).cancelled_by
        if by is not None:
            raise _CancelRequested(by)

    async def _work(self, bench: Bench) -> Finished | None:
        """Takes one step of the table after the other; gives the answer, or None when the execution waits."""
        thread = Thread(bench, self._checkpointer())
        while True:
            match next_step(await thread.view(), self._answered(bench.execution_id)):
                case Seed():
                    await thread.start()
                case Finished() as finished:
                    return finished
                case Broken():
                    thread.forget()
                    raise AgentmdError("the thread ended without an answer of the model")
                case Park(waits):
                    if bench.journal.park(waits):
                        return None
                case Wake(interrupt_ids):
                    await thread.wake(interrupt_ids)
                case Continue():
                    await thread.go_on()

    def _answered(self, execution_id: ExecutionId) -> set[RequestId]:
        return {request.id for request in self._store.requests(execution_id) if not request.open}

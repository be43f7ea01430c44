"""The loop that starts, resumes and continues an execution. Every exit stores a status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_md.agents.spec import AgentSpec
from agent_md.errors import (
    AgentmdError,
    CancelRequested,
    ClaimLost,
    LimitReached,
    ModelFailed,
    OutOfResources,
    Poisoned,
    StoreError,
    UsageError,
    WorkTimeout,
)
from agent_md.executions.calls import Call
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId, WaitId
from agent_md.executions.positions import BETWEEN, Position, most_attempts, place_of_call
from agent_md.executions.states import CallState, Outcome, RequestSource, Status
from agent_md.graph.call_outcomes import CallEnd
from agent_md.graph.cut_off_calls import closing
from agent_md.graph.run_context import HandedOver, RunContext
from agent_md.graph.thread import Thread
from agent_md.ports.journal import ExecutionEnd, Journal
from agent_md.ports.progress import ProgressSink
from agent_md.ports.store import Store
from agent_md.redaction import Redactor
from agent_md.resource_shortages import shortage
from agent_md.runner.next_step import Broken, Continue, Finished, Park, Seed, Wake, next_step
from agent_md.tools.base import Tool

if TYPE_CHECKING:
    from agent_md.stores.checkpoints import Checkpoints

__all__ = ["MakeBench", "OpenCheckpointer", "Runner"]

log = logging.getLogger(__name__)

_POLL_S = 0.05
_CANCEL_GRACE_S = 1.8
"""More than a tool that is given up needs at the most."""

MakeBench = Callable[[Execution, AgentSpec, Journal, ProgressSink], RunContext]
"""Makes the parts for one drive; raises nothing that depends on this process (its model call may raise UsageError)."""

Aside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Calls a function that may run code of custom tools, or look at files, off the driver's loop."""

RedactorOf = Callable[[AgentSpec | None], Redactor]
"""What takes the secrets of an agent, or of the workspace alone, out of the reason of an end. Raises nothing."""

OpenCheckpointer = Callable[[], "Checkpoints"]
"""Gives the checkpointer, opened when it is first asked for. Raises StoreError."""


class Runner:
    """Drives claimed executions, any number at once on one event loop."""

    def __init__(
        self,
        store: Store,
        checkpointer: OpenCheckpointer,
        make_run_context: MakeBench,
        *,
        aside: Aside,
        redactor: RedactorOf = lambda _: Redactor(),
        poll: float = _POLL_S,
        keeps_family: bool = False,
    ) -> None:
        """`keeps_family`: as in `Store.journal`."""
        self._store = store
        self._checkpointer = checkpointer
        self._make_run_context = make_run_context
        self._aside = aside
        self._redactor = redactor
        self._poll = poll
        self._keeps_family = keeps_family

    async def advance(self, claim: Claim, sink: ProgressSink, leave: Callable[[], bool] = lambda: False) -> Execution:
        """Drives the execution until it ends or waits, and gives it as it is then; the claim is given back. When `leave`
        says so the execution is given back as queued before its next model call, where nothing of it is in flight.

        Raises UsageError with the execution queued again when this process cannot drive it (no key for its model), and
        OutOfResources with it queued again when this process ran out of something; ClaimLost or StoreError when nothing
        can be stored any more. Cancelling this call gives the execution back as queued.
        """
        try:
            held: Claim | None = claim
            while held is not None:
                done = await self._attempt(held, sink, leave)
                held = self._to_cancel(claim) if done else self._store.claim(claim.execution_id, claim.worker)
        finally:
            sink.stored()
        return self._store.execution(claim.execution_id)

    def _to_cancel(self, claim: Claim) -> Claim | None:
        """A claim on an execution that was to be cancelled at the moment it began to wait: nobody else would end it."""
        execution = self._store.execution(claim.execution_id)
        if not execution.parked or execution.cancelled_by is None:
            return None
        return self._store.claim_to_cancel(claim.execution_id, claim.worker)

    async def _attempt(self, claim: Claim, sink: ProgressSink, leave: Callable[[], bool]) -> bool:
        """One drive; False when it raised something unforeseen and the execution is queued for the next attempt."""
        journal = self._store.journal(claim, keeps_family=self._keeps_family)
        tools: dict[str, Tool] = {}
        try:
            ending = await self._drive(journal, sink, leave, tools)
            if ending is not None:
                journal.finish(ending)
        except ClaimLost:
            raise
        except StoreError:
            with suppress(ClaimLost, StoreError):  # a full disk says nothing of the execution: no attempt is counted
                journal.release()
            raise
        except HandedOver:
            journal.release()
        except (UsageError, asyncio.CancelledError):
            journal.release()
            raise
        except Exception as error:
            return await self._after(error, journal, tools)
        return True

    async def _drive(
        self, journal: Journal, sink: ProgressSink, leave: Callable[[], bool], tools: dict[str, Tool]
    ) -> ExecutionEnd | None:
        """How the execution ends, or None when it waits; `tools` gets what the drive has of them."""
        execution = self._store.execution(journal.claim.execution_id)
        ending = await self._ending_without_tools(execution)
        if ending is not None:
            return ending
        journal.begin(BETWEEN)
        spec = AgentSpec.from_json(self._store.spec(execution.id))
        made: RunContext = await self._aside(lambda: self._make_run_context(execution, spec, journal, sink))
        run_context = replace(made, leave=leave)
        tools.update(run_context.tools)
        try:
            return await self._outcome(run_context)
        finally:
            await run_context.close()

    async def _after(self, error: Exception, journal: Journal, tools: Mapping[str, Tool]) -> bool:
        """What becomes of an execution whose drive raised this; False = it is queued for another attempt."""
        execution_id = journal.claim.execution_id
        if (short := shortage(error)) is not None:
            log.warning("execution %s is given back: out of %s (%s)", execution_id, short, type(error).__name__)
            journal.release()
            raise OutOfResources(
                f"execution {execution_id} was given back, because this process ran out of {short}. Nothing of it is "
                f"lost; when there is room again, `agentmd resume {execution_id}` goes on"
            ) from error
        log.error("execution %s: an attempt to drive it failed", execution_id, exc_info=error)
        place, attempts = journal.count_attempt()
        if attempts < most_attempts(place):
            journal.release()
            return False
        text = f"{type(error).__name__}: {error} ({place}, {attempts} times in a row). {_retry_hint(execution_id)}"
        journal.finish(await self._ending(execution_id, tools, Status.ERROR, text))
        return True

    async def _ending_without_tools(self, execution: Execution) -> ExecutionEnd | None:
        """The end of one that is to be cancelled or has died too often, without a look at its tools, which may be what it
        died of. None if it is neither, or if only a tool can tell what became of a call."""
        looked_at = [call for call in self._store.calls(execution.id) if not call.state.closed and call.effect]
        poisoned = execution.died_too_often
        if execution.cancelled_by is not None and (poisoned or not looked_at):
            request = CancelRequested(execution.cancelled_by)
            return await self._ending(execution.id, {}, Status.ABORTED, str(request), ended_by=request.by)
        if not poisoned:
            return None
        error = Poisoned(
            f"stopped as poisoned: {execution.attempts} attempts in a row ended without any progress at the same place: "
            f"{execution.attempted}. {_retry_hint(execution.id)}"
        )
        return await self._ending(execution.id, {}, Status.ERROR, str(error))

    async def _outcome(self, run_context: RunContext) -> ExecutionEnd | None:
        """Drives to the end or to a wait (None); what ends an execution on the way is turned into its ending."""
        try:
            self._obey_cancel(run_context.execution_id)
            finished = await self._supervise(run_context)
        except CancelRequested as request:
            return await self._ending(
                run_context.execution_id, run_context.tools, Status.ABORTED, str(request), ended_by=request.by
            )
        except LimitReached as error:
            return await self._ending(run_context.execution_id, run_context.tools, Status.ABORTED, str(error))
        except WorkTimeout as error:
            return await self._ending(run_context.execution_id, run_context.tools, Status.TIMEOUT, str(error))
        except ModelFailed as error:
            return await self._ending(run_context.execution_id, run_context.tools, Status.ERROR, str(error))
        return None if finished is None else ExecutionEnd(Status.SUCCESS, output=finished.output, cut=finished.cut)

    async def _ending(
        self,
        execution_id: ExecutionId,
        tools: Mapping[str, Tool],
        status: Status,
        error: str,
        *,
        ended_by: str | None = None,
    ) -> ExecutionEnd:
        calls = [call for call in self._store.calls(execution_id) if not call.state.closed]

        def closed() -> list[tuple[Position, CallEnd]]:
            """A look at files may take long."""
            return [
                (call.position, closing(tools, call, self._store.steps(execution_id, call.position))) for call in calls
            ]

        ends: list[tuple[Position, CallEnd]] = await self._aside(closed) if calls else []
        closings = tuple((position, end.state, end.outcome, end.text) for position, end in ends)
        if ended_by is None:
            error = f"{error}{self._approved_in_vain(execution_id, calls)}"
        error = self._redactor(self._spec(execution_id)).text(error)
        return ExecutionEnd(status, error=error, ended_by=ended_by, closings=closings)

    def _spec(self, execution_id: ExecutionId) -> AgentSpec | None:
        """None for one of a newer format."""
        try:
            return AgentSpec.from_json(self._store.spec(execution_id))
        except ValueError:
            return None

    def _approved_in_vain(self, execution_id: ExecutionId, still_open: Sequence[Call]) -> str:
        """Tells whoever approved calls that they did not run."""
        approved = {
            request.position
            for request in self._store.requests(execution_id)
            if request.source is RequestSource.GATE and request.answer and request.answer.outcome is Outcome.APPROVED
        }
        calls = [call for call in still_open if call.state is not CallState.STARTED and call.position in approved]
        if not calls:
            return ""
        return f". Approved, and not run: {', '.join(place_of_call(call.position, call.tool) for call in calls)}"

    async def _supervise(self, run_context: RunContext) -> Finished | None:
        """Works until done, cancelled or out of time; gives the answer, or None when the execution waits. To ask for the
        time is the sign of life by which the work of a drive that is killed is counted."""
        version: int | None = None
        work = asyncio.create_task(self._work(run_context))
        try:
            while not work.done():
                current, worked = self._store.version(), run_context.journal.worked_ms()
                run_context.limits.check_time(current, run_context.execution.work_ms, worked)
                if current != version:
                    version = current
                    self._obey_cancel(run_context.execution_id)
                await asyncio.wait({work}, timeout=self._poll)
            finished = await work
            if finished is not None:  # who was asked to cancel since the last look does not end as a success
                self._obey_cancel(run_context.execution_id)
            return finished
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait({work}, timeout=_CANCEL_GRACE_S)
            if work.done() and not work.cancelled():
                work.exception()  # seen here: whatever a stopped drive still raised is of no interest

    def _obey_cancel(self, execution_id: ExecutionId) -> None:
        by = self._store.execution(execution_id).cancelled_by
        if by is not None:
            raise CancelRequested(by)

    async def _work(self, run_context: RunContext) -> Finished | None:
        """Takes one step of the table after the other; gives the answer, or None when the execution waits."""
        thread = Thread(run_context, self._checkpointer())
        while True:
            match next_step(await thread.view(), self._over(run_context.execution_id)):
                case Seed():
                    await thread.start()
                case Finished() as finished:
                    return finished
                case Broken():
                    thread.forget()
                    raise AgentmdError("the thread ended without an answer of the model")
                case Park(waits):
                    if run_context.journal.park(waits):
                        return None
                case Wake(interrupt_ids):
                    await thread.wake(interrupt_ids)
                case Continue():
                    await thread.go_on()

    def _over(self, execution_id: ExecutionId) -> set[WaitId]:
        return {wait for wait, open in self._store.waits(execution_id).items() if not open}


def _retry_hint(execution_id: ExecutionId) -> str:
    return f"When its cause is mended, `agentmd retry {execution_id}` begins it anew"

"""Drives an execution with all that it calls, in one process: for commands and programs that wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.states import Status
from agent_md.ports.progress import ProgressSink
from agent_md.ports.store import Store
from agent_md.runner.loop import Runner

__all__ = ["FamilyDriver"]

_POLL_S = 0.05


class FamilyDriver:
    """Drives the members of one family, several at once, until none of them can go on here. Suspects are driven alone, so
    that it is known which of them ends a process. The runner must keep families."""

    def __init__(self, store: Store, runner: Runner, worker: WorkerId, root: ExecutionId) -> None:
        self._store = store
        self._runner = runner
        self._worker = worker
        self._root = root
        self._tasks: dict[ExecutionId, asyncio.Task[Execution]] = {}
        self._alone: ExecutionId | None = None

    async def drive(
        self, claim: Claim | None, sink: ProgressSink, *, may_take: Callable[[], bool] = lambda: True
    ) -> Execution:
        """Drives with `claim`, on any member, and takes the others as they become free, if it `may_take` what nobody
        holds. Gives the root as it is then.

        Raises what `Runner.advance` raises, of the first member that does; the others are given back. Cancelling this call
        gives all back.
        """
        try:
            if claim is not None:
                self._start(claim, sink)
            version: int | None = None
            while True:
                if (current := self._store.version()) != version:
                    version = current
                    self._take(sink, may_take)
                if not self._tasks:
                    return self._store.execution(self._root)
                done, _ = await asyncio.wait(self._tasks.values(), timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    self._tasks.pop((await task).id)
                    version = None
        finally:
            await self._give_back()

    def _take(self, sink: ProgressSink, may_take: Callable[[], bool]) -> None:
        members = self._store.family(self._root)
        if self._alone in self._tasks and any(member.suspect for member in members if member.id == self._alone):
            return
        self._alone = None
        for member in members:
            if member.id in self._tasks or not self._is_free(member):
                continue
            if member.suspect and self._tasks:
                continue
            claim = self._claim(member, may_take)
            if claim is not None:
                self._start(claim, sink)
                if member.suspect:
                    self._alone = member.id
                    return

    def _is_free(self, member: Execution) -> bool:
        if member.parked:
            return member.cancelled_by is not None
        return not member.status.final

    def _claim(self, member: Execution, may_take: Callable[[], bool]) -> Claim | None:
        if member.status is Status.RUNNING and member.worker == self._worker and not member.parked:
            return Claim(member.id, self._worker, member.epoch)  # it was called, or woken, by one that is driven here
        return self._store.claim(member.id, self._worker) if may_take() else None

    def _start(self, claim: Claim, sink: ProgressSink) -> None:
        self._tasks[claim.execution_id] = asyncio.create_task(self._runner.advance(claim, sink))

    async def _give_back(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._tasks.clear()
        for member in self._store.family(self._root):
            if member.status is Status.RUNNING and member.worker == self._worker:
                with suppress(Exception):
                    self._store.journal(Claim(member.id, self._worker, member.epoch)).release()

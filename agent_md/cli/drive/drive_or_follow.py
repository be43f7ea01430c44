"""Drives or follows one execution from a command: shows its events, and has its requests answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from agent_md.app import App
from agent_md.cli.asking.prompt import TerminalPrompt
from agent_md.cli.asking.scripted_answers import ScriptedAnswers
from agent_md.cli.command_context import login
from agent_md.cli.drive.answering import POLL_S, Answering, StoreChanges
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.progress import Progress
from agent_md.cli.drive.stop_signals import Leaving, Left
from agent_md.cli.exit_codes import GIVEN_BACK, INTERRUPTED, exit_code
from agent_md.cli.option_values import OnAsk
from agent_md.errors import CannotGoOn, UsageError
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import Status
from agent_md.process.standard_streams import divert_tool_output

__all__ = ["drive_or_follow"]

_GRACE_S = 0.3


def drive_or_follow(
    app: App,
    follower: EventFollower,
    claim: Claim | None,
    prompt: TerminalPrompt | None,
    on_ask: OnAsk = OnAsk.WAIT,
    *,
    may_drive: Callable[[], bool] = lambda: True,
    scripted: ScriptedAnswers | None = None,
) -> int:
    """Drives an execution with `claim`, or follows it, until it ends or is left waiting; gives the exit code.

    `prompt` None = nobody is there to ask. `scripted` answers before anybody is asked. `may_drive`: whether to take it
    when it is free; else it is followed. As `asyncio.run`, but what refuses to be cancelled does not hold up the end. A
    signal that came too late is raised again for the caller.
    """
    divert_tool_output(app.settings.state_dir)  # there is a state folder by now
    app.touched.add(follower.execution_id)
    loop = asyncio.new_event_loop()
    try:
        leaving = Leaving(
            loop, follower.output.live, follower.execution_id, partial(_cancel, app, follower), app.note_stop_request
        )
        changes = StoreChanges(app.store)
        answering = Answering(
            *(app, follower.execution_id, follower.output, leaving, changes),
            prompt=prompt,
            on_ask=on_ask,
            scripted=scripted,
            may_drive=may_drive,
        )
        work = _DriveOrFollow(app, follower, leaving, answering, changes, may_drive)
        code = loop.run_until_complete(work.run(claim))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_GRACE_S))
        if not asyncio.all_tasks(loop):
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
    return leaving.code_after(code)


class _DriveOrFollow:
    def __init__(
        self,
        app: App,
        follower: EventFollower,
        leaving: Leaving,
        answering: Answering,
        changes: StoreChanges,
        may_drive: Callable[[], bool],
    ) -> None:
        self._app = app
        self._store = app.store
        self._id = follower.execution_id
        self._follower = follower
        self._output = follower.output
        self._progress = Progress(follower.output.live, app.store, app.store.execution(self._id))
        self._leaving = leaving
        self._answering = answering
        self._changes = changes
        self._may_drive = may_drive
        self._family = app.family_driver(self._id)

    async def run(self, claim: Claim | None) -> int:
        """Drives with `claim`, or follows, asks and drives as it may; gives the exit code."""
        self._leaving.driving = claim is not None
        give_back = self._app.hand_back.listening(lambda _: self._leaving.leave(GIVEN_BACK))
        with self._leaving.listening(), give_back, self._output.live.suspendable():
            progress = asyncio.create_task(self._progress.run())
            try:
                self._progress.saw(self._follower.begin())
                self._answering.know()
                return await self._until_left(claim)
            except Left as left:
                return left.code
            finally:
                progress.cancel()
                self._progress.pause()

    async def _until_left(self, claim: Claim | None) -> int:
        while True:
            execution = await self._drive(claim) if claim is not None else self._store.execution(self._id)
            self.stored()
            if execution.status.final:
                return INTERRUPTED if self._leaving.cancelled else exit_code(execution)
            claim = self._claim()
            if claim is not None:
                continue
            still_open = self._answering.open_requests()
            claim = await (self._answer(execution, still_open) if still_open else self._follow())

    async def _answer(self, execution: Execution, still_open: list[Request]) -> Claim | None:
        self._leaving.driving = False
        self._progress.pause()
        return await self._answering.answer(execution, still_open)

    def _claim(self) -> Claim | None:
        """A claim on the execution, or on one below it, that can go on."""
        for member in self._store.family(self._id):
            claim = None
            if self._leaving.cancelled:  # it began to wait before its driver could obey
                claim = self._store.claim_to_cancel(member.id, self._app.worker)
            elif member.status is Status.QUEUED and self._may_drive():
                claim = self._store.claim(member.id, self._app.worker)
            if claim is not None:
                return claim
        return None

    async def _drive(self, claim: Claim) -> Execution:
        self._leaving.driving = True
        self._progress.driving()
        drive = asyncio.create_task(self._family.drive(claim, self, may_take=self._may_drive))
        waits: set[asyncio.Future[Any]] = {drive, self._leaving.asked}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not drive.done():
            drive.cancel()
            with suppress(asyncio.CancelledError):
                await drive
            why = self._app.hand_back.reason
            how = "was left as it is" if why is None else f"was given back: {why}"
            self._output.note(f"execution {self._id} {how}; `agentmd resume {self._id}` goes on")
            raise Left(self._leaving.asked.result())
        try:
            return await drive
        except UsageError as error:
            raise CannotGoOn(
                f"execution {self._id} cannot go on here: {error}. What was answered is kept; when this is mended, "
                f"`agentmd resume {self._id}` goes on"
            ) from error

    def stored(self) -> None:
        """Shows what is new."""
        self._progress.saw(self._follower.update())

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """Shows a piece of a message until the stored event is shown."""
        if execution_id == self._id:
            self._progress.delta(text)

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        """Takes back what was shown of the message."""
        if execution_id == self._id:
            self._progress.restart(attempt, attempts)

    async def _follow(self) -> Claim | None:
        """Waits for something new; takes the execution over if its driver died."""
        self._leaving.driving = False
        self._progress.following()
        while not self._changes.seen():
            await asyncio.wait({self._leaving.asked}, timeout=POLL_S)
            if self._leaving.asked.done():
                self._output.note(f"execution {self._id} goes on without this terminal: agentmd logs -e {self._id}")
                raise Left(self._leaving.asked.result())
            if self._may_drive() and (claim := self._abandoned()) is not None:
                return claim
        return None

    def _abandoned(self) -> Claim | None:
        abandoned = {execution.id for execution in self._store.abandoned()}
        for member in self._store.family(self._id) if abandoned else ():
            if member.id in abandoned and (claim := self._store.claim(member.id, self._app.worker)) is not None:
                return claim
        return None


def _cancel(app: App, follower: EventFollower) -> None:
    app.store.request_cancel(follower.execution_id, login())

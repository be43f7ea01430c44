"""Drives or follows one execution from a terminal: shows its events and asks its requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agent_md.app import App
from agent_md.cli.asking.ask_request import ask_request
from agent_md.cli.asking.local_details import LocalDetails
from agent_md.cli.asking.prompt import PromptClosed, TerminalPrompt
from agent_md.cli.asking.scripted_answers import ScriptedAnswers
from agent_md.cli.command_context import login
from agent_md.cli.drive.event_follower import Showing
from agent_md.cli.drive.progress import Progress
from agent_md.cli.drive.stop_signals import Leaving
from agent_md.cli.exit_codes import GIVEN_BACK, INTERRUPTED, WAITING, exit_code
from agent_md.cli.option_values import OnAsk
from agent_md.cli.terminal.notices import Notices
from agent_md.cli.terminal.output import note
from agent_md.cli.views.request_text import asked_by, listed, summary, unasked, withdrawn
from agent_md.errors import AnswerConflict, AnswerRefused, CannotGoOn, UsageError
from agent_md.executions.answers import POLICY
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import Outcome, RequestKind, RequestSource, Status
from agent_md.ports.store import NewAnswer
from agent_md.process.standard_streams import divert_tool_output

__all__ = ["drive_or_follow"]

_POLL_S = 0.05
_GRACE_S = 0.3


def drive_or_follow(
    app: App,
    showing: Showing,
    claim: Claim | None,
    prompt: TerminalPrompt | None,
    on_ask: OnAsk = OnAsk.WAIT,
    *,
    may_drive: Callable[[], bool] = lambda: True,
    scripted: ScriptedAnswers | None = None,
) -> int:
    """Attends the shown execution until it ends or is left waiting, driving it with `claim`; gives the exit code.

    `prompt` None = nobody is there to ask. `scripted` answers before anybody is asked. `may_drive`: whether to take it when it is free; else it is followed. As
    `asyncio.run`, but what refuses to be cancelled does not hold up the end. A signal that came too late is raised again
    for the caller.
    """
    divert_tool_output(app.settings.state_dir)  # there is a state folder by now
    app.touched.add(showing.execution_id)
    loop = asyncio.new_event_loop()
    try:
        attendant = _Attendant(app, showing, prompt, on_ask, may_drive, scripted, loop)
        code = loop.run_until_complete(attendant.run(claim))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_GRACE_S))
        if not asyncio.all_tasks(loop):
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
    return attendant.leaving.code_after(code)


class _Left(Exception):
    """The attendant goes; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class _Attendant:
    def __init__(
        self,
        app: App,
        showing: Showing,
        prompt: TerminalPrompt | None,
        on_ask: OnAsk,
        may_drive: Callable[[], bool],
        scripted: ScriptedAnswers | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._app = app
        self._store = app.store
        self._id = showing.execution_id
        self._showing = showing
        self._live = showing.output.live
        self._progress = Progress(self._live, app.store, app.store.execution(self._id))
        self._prompt = prompt
        self._notices = Notices(app.settings.terminal)
        self._on_ask = on_ask
        self._may_drive = may_drive
        self._scripted = scripted
        self.leaving = Leaving(loop, self._live, self._id, self._cancel, app.note_stop_request)
        self._version = self._store.version()
        self._family = app.family_driver(self._id)

    async def run(self, claim: Claim | None) -> int:
        """Drives with `claim`, or follows, asks and drives as it may; gives the exit code."""
        self.leaving.driving = claim is not None
        give_back = self._app.hand_back.listening(lambda _: self.leaving.leave(GIVEN_BACK))
        with self.leaving.listening(), give_back, self._live.suspendable():
            progress = asyncio.create_task(self._progress.run())
            try:
                self._progress.saw(self._showing.begin())
                self._notices.know([request.id for request in self._still_open()])
                return await self._attend(claim)
            except _Left as left:
                return left.code
            finally:
                progress.cancel()
                self._progress.pause()

    async def _attend(self, claim: Claim | None) -> int:
        while True:
            execution = await self._drive(claim) if claim is not None else self._store.execution(self._id)
            self.stored()
            if execution.status.final:
                return INTERRUPTED if self.leaving.cancelled else exit_code(execution)
            claim = self._claim()
            if claim is not None:
                continue
            still_open = self._still_open()
            answers = self._by_script(execution, still_open)
            if answers:
                claim = self._decide(answers, "script")
            else:
                claim = await (self._ask(still_open[0]) if still_open else self._follow())

    def _still_open(self) -> list[Request]:
        """The open requests of the execution and of what it has called, oldest first."""
        return [request for request in self._store.requests(self._id, family=True) if request.open]

    def _claim(self) -> Claim | None:
        """A claim on the execution, or on one below it, that can go on."""
        for member in self._store.family(self._id):
            claim = None
            if self.leaving.cancelled:  # it began to wait before its driver could obey
                claim = self._store.claim_to_cancel(member.id, self._app.worker)
            elif member.status is Status.QUEUED and self._may_drive():
                claim = self._store.claim(member.id, self._app.worker)
            if claim is not None:
                return claim
        return None

    # Driving

    async def _drive(self, claim: Claim) -> Execution:
        self.leaving.driving = True
        self._progress.driving()
        drive = asyncio.create_task(self._family.drive(claim, self, may_take=self._may_drive))
        waits: set[asyncio.Future[Any]] = {drive, self.leaving.asked}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not drive.done():
            drive.cancel()
            with suppress(asyncio.CancelledError):
                await drive
            why = self._app.hand_back.reason
            how = "was left as it is" if why is None else f"was given back: {why}"
            self._note(f"execution {self._id} {how}; `agentmd resume {self._id}` goes on")
            raise _Left(self.leaving.asked.result())
        try:
            return await drive
        except UsageError as error:
            raise CannotGoOn(
                f"execution {self._id} cannot go on here: {error}. What was answered is kept; when this is mended, "
                f"`agentmd resume {self._id}` goes on"
            ) from error

    def _cancel(self) -> None:
        self._store.request_cancel(self._id, login())

    def stored(self) -> None:
        """Shows what is new."""
        self._progress.saw(self._showing.update())

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """Shows a piece of a message until the stored event is shown."""
        if execution_id == self._id:
            self._progress.delta(text)

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        """Takes back what was shown of the message."""
        if execution_id == self._id:
            self._progress.restart(attempt, attempts)

    # Asking

    async def _ask(self, request: Request) -> Claim | None:
        if self._prompt is None:
            return self._by_policy()
        self.leaving.driving = False
        self._progress.pause()
        self._notices.tell([still.id for still in self._still_open()], request.agent, listed(request))
        drift = self._app.drift_of([request])[request.id]
        details = LocalDetails(self._app, request)
        asking = asyncio.create_task(ask_request(request, self._prompt, details, drift=drift, now=time.time()))
        try:
            decided = await self._until_answered(asking, request)
        except PromptClosed:
            raise self._left_waiting(WAITING) from None
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        if decided is not None:
            self._prompt.tell(withdrawn(decided))
            return None
        try:
            answer = await self._answer(request, asking.result())
        except AnswerRefused as refused:  # edited arguments that were fine a moment ago; it is asked again
            self._note(str(refused))
            return None
        claim = self._record([answer], login())
        self._showing.output.prompted()
        return claim

    async def _answer(self, request: Request, response: Any) -> NewAnswer:
        execution = self._store.execution(request.execution_id)
        answer: NewAnswer = await self._app.assembly.tool_threads.aside(
            lambda: self._app.responder.new_answer(execution, request, response)
        )
        return answer

    async def _until_answered(self, asking: asyncio.Task[Any], request: Request) -> Request | None:
        """None when the question was answered here; the request as decided when that happened elsewhere."""
        waits: set[asyncio.Future[Any]] = {asking, self.leaving.asked}
        while not asking.done():
            await asyncio.wait(waits, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
            if self.leaving.asked.done():
                asking.cancel()
                await asyncio.wait({asking})
                raise self._left_waiting(self.leaving.asked.result())
            if asking.done():
                break
            if request.expires_at is not None and request.expires_at <= time.time():
                self._store.settle_overdue()
            elif not self._changed():
                continue
            current = self._store.request(request.id)
            if not current.open:
                return current
        asking.result()
        return None

    def _record(self, answers: list[NewAnswer], by: str) -> Claim | None:
        try:
            worker = self._app.worker if self._may_drive() else None
            return self._store.record_answers(answers, by=by, claim_for=worker).claim
        except AnswerConflict as conflict:
            self._note(str(conflict))
            return None

    def _by_policy(self) -> Claim | None:
        if self._on_ask is OnAsk.WAIT:
            raise self._left_waiting(WAITING)
        if self._on_ask is OnAsk.FAIL:
            self._store.request_cancel(self._id, f"{POLICY} (--on-ask fail)")
            return self._store.claim_to_cancel(self._id, self._app.worker)  # what it has called follows
        denials = [
            NewAnswer(r.id, Outcome.DENIED, {"approved": False} if r.kind is RequestKind.CONFIRM else None)
            for r in self._still_open()
        ]
        return self._decide(denials, POLICY)

    def _by_script(self, execution: Execution, still_open: list[Request]) -> list[NewAnswer]:
        if self._scripted is None:
            return []
        try:
            found = [self._scripted.answer(execution, request) for request in still_open]
        except AnswerRefused:
            self._tell_waiting(still_open)
            raise
        answers = [answer for answer in found if answer is not None]
        for request in still_open if not answers else ():
            self._note(f"no answer in {self._scripted.path} fits: {summary(request)}")
        return answers

    def _decide(self, answers: list[NewAnswer], by: str) -> Claim | None:
        """Records and shows answers that nobody here was asked for."""
        claim = self._record(answers, by)
        for request in [self._store.request(answer.request_id) for answer in answers]:
            shown = request.source is RequestSource.GATE and not request.path  # as the call
            self._showing.output.decided(request, shown=shown)
        return claim

    def _left_waiting(self, code: int) -> _Left:
        self._tell_waiting(self._still_open())
        return _Left(code)

    def _tell_waiting(self, still_open: list[Request]) -> None:
        for request in still_open if self._prompt is None else ():
            if request.source is RequestSource.TOOL or request.path:
                self._note(f"? {asked_by(request)}{unasked(request)}")
            else:  # it was shown as the call, but for its long texts
                self._showing.output.left_open(request)
        what = "an answer" if len(still_open) == 1 else f"{len(still_open)} answers"
        # By the request's id, so that the command, given again, cannot answer a later question.
        named = f" --request {still_open[0].id}" if len(still_open) == 1 else ""
        self._note(f"execution {self._id} waits for {what}: agentmd respond {self._id}{named}")

    # Following

    async def _follow(self) -> Claim | None:
        """Waits for something new; takes the execution over if its driver died."""
        self.leaving.driving = False
        self._progress.following()
        while not self._changed():
            await asyncio.wait({self.leaving.asked}, timeout=_POLL_S)
            if self.leaving.asked.done():
                self._note(f"execution {self._id} goes on without this terminal: agentmd logs -e {self._id}")
                raise _Left(self.leaving.asked.result())
            if self._may_drive() and (claim := self._abandoned()) is not None:
                return claim
        return None

    def _abandoned(self) -> Claim | None:
        abandoned = {execution.id for execution in self._store.abandoned()}
        for member in self._store.family(self._id) if abandoned else ():
            if member.id in abandoned and (claim := self._store.claim(member.id, self._app.worker)) is not None:
                return claim
        return None

    def _changed(self) -> bool:
        version = self._store.version()
        changed, self._version = version != self._version, version
        return changed

    def _note(self, text: str) -> None:
        self._live.withdraw()
        note(text)

"""Answers the open requests of one execution from a command: asks at the terminal, or answers by a script or a policy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from agent_md.app import App
from agent_md.cli.asking.ask_request import ask_request
from agent_md.cli.asking.local_details import LocalDetails
from agent_md.cli.asking.prompt import PromptClosed, TerminalPrompt
from agent_md.cli.asking.scripted_answers import ScriptedAnswers
from agent_md.cli.command_context import login
from agent_md.cli.drive.run_output import Output
from agent_md.cli.drive.stop_signals import Leaving, Left
from agent_md.cli.exit_codes import WAITING
from agent_md.cli.option_values import OnAsk
from agent_md.cli.terminal.notices import Notices
from agent_md.cli.views.listed_request import listed, withdrawn
from agent_md.errors import AnswerConflict, AnswerRefused
from agent_md.executions.answers import POLICY
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import Outcome, RequestKind, RequestSource
from agent_md.ports.store import NewAnswer, Store
from agent_md.wording.request_text import asked_by, summary, unasked

__all__ = ["POLL_S", "Answering", "StoreChanges"]

POLL_S = 0.05


class StoreChanges:
    """Whether anything was written to a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = store.version()

    def seen(self) -> bool:
        """Whether something was written since the last look."""
        version = self._store.version()
        changed, self._version = version != self._version, version
        return changed


class Answering:
    """The open requests of one execution, and who answers them. `prompt` None = nobody is there to ask."""

    def __init__(
        self,
        app: App,
        execution_id: ExecutionId,
        output: Output,
        leaving: Leaving,
        changes: StoreChanges,
        *,
        prompt: TerminalPrompt | None,
        on_ask: OnAsk,
        scripted: ScriptedAnswers | None,
        may_drive: Callable[[], bool],
    ) -> None:
        self._app = app
        self._store = app.store
        self._id = execution_id
        self._output = output
        self._leaving = leaving
        self._changes = changes
        self._prompt = prompt
        self._on_ask = on_ask
        self._scripted = scripted
        self._may_drive = may_drive
        self._notices = Notices(app.settings.terminal)

    def open_requests(self) -> list[Request]:
        """The open requests of the execution and of what it has called, oldest first."""
        return [request for request in self._store.requests(self._id, family=True) if request.open]

    def know(self) -> None:
        """No notice is given of what is open now."""
        self._notices.know([request.id for request in self.open_requests()])

    async def answer(self, execution: Execution, still_open: list[Request]) -> Claim | None:
        """Answers what it can of the open requests, and gives the claim to go on, if this process got it. Raises Left."""
        if answers := self._by_script(execution, still_open):
            return self._decide(answers, "script")
        if self._prompt is None:
            return self._by_policy()
        return await self._ask(still_open[0], self._prompt)

    async def _ask(self, request: Request, prompt: TerminalPrompt) -> Claim | None:
        self._notices.tell([still.id for still in self.open_requests()], request.agent, listed(request))
        drift = self._app.drift_of([request])[request.id]
        details = LocalDetails(self._app, request)
        self._store.showings.record([request], login())
        asking = asyncio.create_task(ask_request(request, prompt, details, drift=drift, now=time.time()))
        try:
            decided = await self._until_answered(asking, request)
        except PromptClosed:
            raise self._left_waiting(WAITING) from None
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        if decided is not None:
            prompt.tell(withdrawn(decided))
            return None
        try:
            answer = await self._answer(request, asking.result())
        except AnswerRefused as refused:  # edited arguments that were fine a moment ago; it is asked again
            self._output.note(str(refused))
            return None
        claim = self._record([answer], login())
        self._output.prompted()
        return claim

    async def _answer(self, request: Request, response: Any) -> NewAnswer:
        execution = self._store.execution(request.execution_id)
        answer: NewAnswer = await self._app.assembly.tool_threads.aside(
            lambda: self._app.responder.new_answer(execution, request, response)
        )
        return answer

    async def _until_answered(self, asking: asyncio.Task[Any], request: Request) -> Request | None:
        """None when the question was answered here; the request as decided when that happened elsewhere."""
        waits: set[asyncio.Future[Any]] = {asking, self._leaving.asked}
        while not asking.done():
            await asyncio.wait(waits, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
            if self._leaving.asked.done():
                asking.cancel()
                await asyncio.wait({asking})
                raise self._left_waiting(self._leaving.asked.result())
            if asking.done():
                break
            if request.expires_at is not None and request.expires_at <= time.time():
                self._store.settle_overdue()
            elif not self._changes.seen():
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
            self._output.note(str(conflict))
            return None

    def _by_policy(self) -> Claim | None:
        if self._on_ask is OnAsk.WAIT:
            raise self._left_waiting(WAITING)
        if self._on_ask is OnAsk.FAIL:
            self._store.request_cancel(self._id, f"{POLICY} (--on-ask fail)")
            return self._store.claim_to_cancel(self._id, self._app.worker)  # what it has called follows
        denials = [
            NewAnswer(r.id, Outcome.DENIED, {"approved": False} if r.kind is RequestKind.CONFIRM else None)
            for r in self.open_requests()
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
            self._output.note(f"no answer in {self._scripted.path} fits: {summary(request)}")
        return answers

    def _decide(self, answers: list[NewAnswer], by: str) -> Claim | None:
        """Records and shows answers that nobody here was asked for."""
        claim = self._record(answers, by)
        for request in [self._store.request(answer.request_id) for answer in answers]:
            shown = request.source is RequestSource.GATE and not request.path  # as the call
            self._output.decided(request, shown=shown)
        return claim

    def _left_waiting(self, code: int) -> Left:
        self._tell_waiting(self.open_requests())
        return Left(code)

    def _tell_waiting(self, still_open: list[Request]) -> None:
        if self._output.shows_questions:
            self._store.showings.record(still_open, login())
        for request in still_open if self._prompt is None else ():
            if request.source is RequestSource.TOOL or request.path:
                self._output.note(f"? {asked_by(request)}{unasked(request)}")
            else:  # it was shown as the call, but for its long texts
                self._output.left_open(request)
        what = "an answer" if len(still_open) == 1 else f"{len(still_open)} answers"
        # By the request's id, so that the command, given again, cannot answer a later question.
        named = f" --request {still_open[0].id}" if len(still_open) == 1 else ""
        self._output.note(f"execution {self._id} waits for {what}: agentmd respond {self._id}{named}")

"""Attends one execution from a terminal: drives it or follows it, shows its events, asks its questions."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Any, Literal, NoReturn

from agent_md.app import App
from agent_md.cli.output import Output, note
from agent_md.cli.prompt import PromptClosed, TerminalPrompt, ask_request
from agent_md.cli.questions import withdrawn
from agent_md.errors import AnswerConflict
from agent_md.executions.answers import validate_response
from agent_md.executions.model import (
    Claim,
    EventType,
    Execution,
    ExecutionId,
    Outcome,
    Request,
    RequestKind,
    Status,
)
from agent_md.ports import NewAnswer

__all__ = ["EXIT_INTERRUPTED", "EXIT_OF", "EXIT_WAITING", "Attendant", "OnAsk", "login"]

OnAsk = Literal["wait", "deny", "fail"]

EXIT_OF = {Status.SUCCESS: 0, Status.ERROR: 1, Status.ABORTED: 4, Status.TIMEOUT: 5}
EXIT_WAITING = 3
EXIT_INTERRUPTED = 130

_POLL_S = 0.05
_POLICY = "policy"


def login() -> str:
    """Who answers at this terminal: `cli:LOGIN`."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"


class _Doing(Enum):
    DRIVING = auto()
    ASKING = auto()
    FOLLOWING = auto()


class _Left(Exception):
    """The attendant goes; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Attendant:
    """Attends one execution until it ends or is left waiting; `prompt` None = nobody is there to ask."""

    def __init__(
        self, app: App, execution_id: ExecutionId, output: Output, prompt: TerminalPrompt | None, on_ask: OnAsk = "wait"
    ) -> None:
        self._app = app
        self._store = app.store
        self._id = execution_id
        self._output = output
        self._prompt = prompt
        self._on_ask = on_ask
        self._doing = _Doing.FOLLOWING
        self._interrupted = False
        self._leave: asyncio.Future[int] | None = None
        self._shown = 0
        self._version = self._store.version()

    def begin(self, *, from_start: bool) -> None:
        """Sets where showing begins: with the first event, or with what comes now."""
        if not from_start:
            events = self._store.events(self._id)
            self._shown = events[-1].seq if events else 0

    async def run(self, claim: Claim | None) -> int:
        """Drives with `claim`, or follows, asks and drives as it may; gives the exit code."""
        self._leave = asyncio.get_running_loop().create_future()
        with _signals({signal.SIGINT: self._on_interrupt, signal.SIGTERM: self._on_stop, signal.SIGHUP: self._on_stop}):
            try:
                return await self._attend(claim)
            except _Left as left:
                return left.code

    async def _attend(self, claim: Claim | None) -> int:
        while True:
            execution = await self._drive(claim) if claim is not None else self._store.execution(self._id)
            claim = None
            self._show()
            if execution.status.final:
                return EXIT_INTERRUPTED if self._interrupted else EXIT_OF[execution.status]
            if execution.status is Status.QUEUED:
                claim = self._store.claim(self._id, self._app.worker)
            if claim is not None:
                continue
            request = self._oldest_open()
            if request is not None:
                claim = await self._ask(request)
            else:
                claim = await self._follow()

    # Driving

    async def _drive(self, claim: Claim) -> Execution:
        self._doing = _Doing.DRIVING
        drive = asyncio.create_task(self._app.runner().advance(claim, self))
        assert self._leave is not None
        waits: set[asyncio.Future[Any]] = {drive, self._leave}
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not drive.done():
            drive.cancel()
            with suppress(asyncio.CancelledError):
                await drive
            note(f"execution {self._id} was left as it is; `agentmd resume {self._id}` goes on")
            raise _Left(self._leave.result())
        return await drive

    def stored(self) -> None:
        """Shows what is new; a reader that went away is no reason to stop."""
        with suppress(BrokenPipeError):
            self._show()

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """Pieces of a message are not shown here; the stored event is."""

    def restart(self, execution_id: ExecutionId, turn: int) -> None:
        """Nothing of the message was shown."""

    def _show(self) -> None:
        for event in self._store.events(self._id, after=self._shown):
            open_requests = []
            execution = self._store.execution(self._id)
            if event.type is EventType.WAITING:
                drifted = self._app.drifted(execution)
                open_requests = [(r, drifted) for r in self._store.requests(self._id) if r.open]
            self._shown = event.seq
            self._output.event(event, execution, open_requests)

    # Asking

    def _oldest_open(self) -> Request | None:
        return next((request for request in self._store.requests(self._id) if request.open), None)

    async def _ask(self, request: Request) -> Claim | None:
        if self._prompt is None:
            return self._by_policy()
        self._doing = _Doing.ASKING
        execution = self._store.execution(self._id)
        asking = asyncio.create_task(
            ask_request(request, self._prompt, drifted=self._app.drifted(execution), now=_now())
        )
        try:
            decided = await self._until_answered(asking, request)
        except PromptClosed:
            self._left_waiting()
            raise _Left(EXIT_WAITING) from None
        finally:
            asking.cancel()
            await asyncio.wait({asking})
        if decided is not None:
            print(withdrawn(decided, self._prompt.screen), flush=True)
            return None
        outcome, value = validate_response(request, asking.result())
        return self._record([NewAnswer(request.id, outcome, value)], login())

    async def _until_answered(self, asking: asyncio.Task[Any], request: Request) -> Request | None:
        """None when the question was answered here; the request as decided when that happened elsewhere."""
        assert self._leave is not None
        while not asking.done():
            waits: set[asyncio.Future[Any]] = {asking, self._leave}
            await asyncio.wait(waits, timeout=_POLL_S, return_when=asyncio.FIRST_COMPLETED)
            if self._leave.done():
                asking.cancel()
                await asyncio.wait({asking})
                self._left_waiting()
                raise _Left(self._leave.result())
            if asking.done():
                break
            if request.expires_at is not None and request.expires_at <= _now():
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
            receipt = self._store.record_answers(answers, by=by, claim_for=self._app.worker)
        except AnswerConflict as conflict:
            note(str(conflict))
            return None
        prompted: Callable[[], None] | None = getattr(self._output, "prompted", None)
        if prompted is not None and self._prompt is not None:
            prompted()
        return receipt.claim

    def _by_policy(self) -> Claim | None:
        if self._on_ask == "wait":
            self._left_waiting()
            raise _Left(EXIT_WAITING)
        if self._on_ask == "fail":
            self._store.request_cancel(self._id, f"{_POLICY} (--on-ask fail)")
            return self._store.claim_to_cancel(self._id, self._app.worker)
        denied = [
            NewAnswer(r.id, Outcome.DENIED, {"approved": False} if r.kind is RequestKind.CONFIRM else None)
            for r in self._store.requests(self._id)
            if r.open
        ]
        return self._record(denied, _POLICY)

    def _left_waiting(self) -> None:
        count = sum(request.open for request in self._store.requests(self._id))
        what = "an answer" if count == 1 else f"{count} answers"
        note(f"execution {self._id} waits for {what}: agentmd respond {self._id}")

    # Following

    async def _follow(self) -> Claim | None:
        """Waits for something new; takes the execution over if its driver died."""
        self._doing = _Doing.FOLLOWING
        assert self._leave is not None
        if self._prompt is None and self._store.execution(self._id).status is Status.WAITING:
            return self._by_policy()
        while not self._changed():
            await asyncio.wait({self._leave}, timeout=_POLL_S)
            if self._leave.done():
                note(f"execution {self._id} goes on without this terminal: agentmd logs -e {self._id}")
                raise _Left(self._leave.result())
            if (claim := self._store.claim(self._id, self._app.worker)) is not None:
                return claim
        return None

    def _changed(self) -> bool:
        version = self._store.version()
        changed, self._version = version != self._version, version
        return changed

    # Signals

    def _on_interrupt(self) -> None:
        if self._doing is not _Doing.DRIVING:
            self._go(EXIT_INTERRUPTED)
        elif self._interrupted:
            _exit_now(EXIT_INTERRUPTED)
        else:
            self._interrupted = True
            note(f"cancelling execution {self._id}; press Ctrl-C again to leave at once")
            self._store.request_cancel(self._id, login())

    def _on_stop(self) -> None:
        self._go(128 + signal.SIGTERM)

    def _go(self, code: int) -> None:
        if self._leave is not None and not self._leave.done():
            self._leave.set_result(code)


class _signals:
    """Handlers on the running loop for as long as this lasts."""

    def __init__(self, handlers: dict[signal.Signals, Callable[[], None]]) -> None:
        self._handlers = handlers

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        for number, handler in self._handlers.items():
            loop.add_signal_handler(number, handler)

    def __exit__(self, *_: object) -> None:
        loop = asyncio.get_running_loop()
        for number in self._handlers:
            loop.remove_signal_handler(number)


def _exit_now(code: int) -> NoReturn:
    sys.stdout.flush()
    os._exit(code)


def _now() -> float:
    import time

    return time.time()

"""`Workspace`: runs, answers and cancels executions from a Python program."""

from __future__ import annotations

import asyncio
import getpass
import os
import queue
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent_md.app import App
from agent_md.errors import UnknownRequest, UsageError
from agent_md.executions.answers import client_name
from agent_md.executions.execution import Claim, Event, Execution
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Request
from agent_md.executions.states import Status, TriggerKind
from agent_md.python_api.driver import Driver
from agent_md.python_api.event_sink import EventSink, OnEvent, TextDelta
from agent_md.python_api.threads import BackgroundTask, blocking
from agent_md.settings import load_settings

__all__ = ["Workspace"]


class Workspace:
    """A workspace, opened by this process until `close`; a context manager, also an asynchronous one.

    Several executions may be driven at once, by several threads or tasks. While one is driven, the current folder of the
    process is that of the workspace, as custom tools expect. Errors are those of `agent_md.errors`; a UsageError says
    that nothing was changed.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, deliver_within: float = 10.0) -> None:
        """Opens `folder`; without one, the workspace is found as the command line finds it. Nothing is written yet.

        `deliver_within`: seconds that a method may take at its end to send webhooks, where no server runs. Raises
        ConfigInvalid.
        """
        chosen = None if folder is None else Path(folder)
        self._opened: App | None = App(load_settings(chosen, environ=os.environ, cwd=Path.cwd(), home=Path.home()))
        self._folder = self._opened.settings.workspace
        self._driver = Driver(self._opened, deliver_within=deliver_within)

    @property
    def folder(self) -> Path:
        """Where it is."""
        return self._folder

    def close(self) -> None:
        """Frees everything. What this process still drives is left to be resumed. Afterwards every method but this one,
        which may be called again, raises UsageError."""
        app, self._opened = self._opened, None
        if app is not None:
            app.close()

    @property
    def _app(self) -> App:
        if self._opened is None:
            raise UsageError(f"this Workspace of {self._folder} is closed; open another one")
        return self._opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    # Running

    def run(
        self,
        agent: str,
        message: str | None = None,
        *,
        args: Sequence[str] = (),
        session: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Execution:
        """Creates an execution of an agent, drives it here until it ends or waits for an answer, and returns it.

        `args` replace `$1`, `$2`… in the agent's text. With `session` it is the next turn of that session, which is
        created if necessary. Raises UsageError, with nothing created, if the agent cannot run. After an exception of
        `on_event`, Ctrl-C or a cancellation the execution is queued: `resume` continues it."""
        return blocking(self.arun(agent, message, args=args, session=session, on_event=on_event))

    async def arun(
        self,
        agent: str,
        message: str | None = None,
        *,
        args: Sequence[str] = (),
        session: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Execution:
        """As `run`."""
        created = self._app.starter.start(
            agent,
            args=args,
            message=message,
            trigger=TriggerKind.API,
            session_id=session,
            exclusive=session is not None,
        )
        return await self._driver.drive(
            Claim(created.id, self._app.worker, created.epoch), EventSink(self._app, created.id, on_event)
        )

    def resume(self, execution_id: int, *, on_event: OnEvent | None = None) -> Execution:
        """Goes on with an execution until it ends or waits for an answer, and gives it as it is then.

        It is driven here; if a live process drives it, that one is waited for. One that has ended, or waits, is given as
        it is. Raises UnknownExecution.
        """
        return blocking(self.aresume(execution_id, on_event=on_event))

    async def aresume(self, execution_id: int, *, on_event: OnEvent | None = None) -> Execution:
        """As `resume`."""
        found = self.execution(execution_id)
        events = self._app.store.events(found.id)
        sink = EventSink(self._app, found.id, on_event, after=events[-1].seq if events else 0)
        while not found.status.final and found.status is not Status.WAITING:
            family = self._app.store.family(found.root)
            claims = (self._app.store.claim(member.id, self._app.worker) for member in family)
            claim = next((claim for claim in claims if claim is not None), None)
            if claim is not None:
                await self._driver.drive(claim, sink)
                return self._app.store.execution(found.id)
            await self._driver.wait_until_free(found.id, sink)
            found = self._app.store.execution(found.id)
        return found

    def stream(
        self, agent: str, message: str | None = None, *, args: Sequence[str] = (), session: str | None = None
    ) -> Iterator[Event | TextDelta]:
        """As `run`, and gives each event as it comes; the last is of type `waiting` or `complete`.

        A loop that is left early leaves the execution queued.
        """
        events: queue.Queue[Event | TextDelta | None] = queue.Queue()
        running = BackgroundTask(self.arun(agent, message, args=args, session=session, on_event=events.put))
        running.start(lambda: events.put(None))
        try:
            while (event := events.get()) is not None:
                yield event
        finally:
            running.stop()
        running.result()

    async def astream(
        self, agent: str, message: str | None = None, *, args: Sequence[str] = (), session: str | None = None
    ) -> AsyncIterator[Event | TextDelta]:
        """As `stream`. Close it (`contextlib.aclosing`) if it may be left early."""
        events: asyncio.Queue[Event | TextDelta | None] = asyncio.Queue()
        work = self.arun(agent, message, args=args, session=session, on_event=events.put_nowait)
        running = asyncio.create_task(work)
        running.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
        finally:
            running.cancel()
            await asyncio.wait({running})
        running.result()

    # Answering

    def requests(self, execution_id: int | None = None) -> list[Request]:
        """The open requests of one execution, with those of what it has called, or of all, oldest first. Raises UnknownExecution."""
        if execution_id is not None:
            found = self.execution(execution_id)
            return [request for request in self._app.store.requests(found.id, family=True) if request.open]
        if not self._app.settings.database.exists():
            return []
        self._app.store.settle_overdue()
        return self._app.store.open_requests()

    def answer(self, request: Request | str, response: Any, *, by: str | None = None) -> Execution:
        """Records the answer to a request, by object or id, and gives its execution; `resume` goes on with it, unless a
        server does.

        `response` is what the HTTP interface takes for this kind of request, such as `{"approved": True}`. `by` is who
        answers; the user of this process without it. The first answer counts; the same one again changes nothing.
        Raises UnknownRequest, AnswerRefused for a response that does not fit and for a name that agentmd answers by
        itself, AnswerConflict when it was decided otherwise.
        """
        request_id = request.id if isinstance(request, Request) else RequestId(request)
        answered_by = _current_user() if by is None else client_name("python", by)
        if not self._app.settings.database.exists():
            raise UnknownRequest(f"there is no request {request_id!r}: nothing was ever run in {self.folder}")
        current = self._app.store.request(request_id)
        execution = self._app.store.execution(current.execution_id)
        new = self._app.responder.new_answer(execution, current, response)
        self._app.store.record_answers([new], by=answered_by)
        return self._app.store.execution(execution.id)

    # Looking

    def execution(self, execution_id: int) -> Execution:
        """How an execution stands; overdue requests are settled first. Raises UnknownExecution."""
        found = self._app.find_execution(ExecutionId(execution_id))
        return self._app.store.execution(found.id) if self._app.store.settle_overdue() else found

    def events(self, execution_id: int) -> list[Event]:
        """Everything that happened in an execution, in order. Raises UnknownExecution."""
        found = self._app.find_execution(ExecutionId(execution_id))
        return self._app.store.events(found.id)

    def cancel(self, execution_id: int) -> Execution:
        """Aborts an execution that waits or is not driven; notifies the process that drives it otherwise. Returns it in
        its current state. Raises UnknownExecution."""
        return blocking(self.acancel(execution_id))

    async def acancel(self, execution_id: int) -> Execution:
        """As `cancel`."""
        found = self.execution(execution_id)
        self._app.store.request_cancel(found.id, _current_user())
        await self._driver.close(found.id)
        return self._app.store.execution(found.id)


def _current_user() -> str:
    """Who answers or cancels, when the program does not say it."""
    try:
        return f"python:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"python:{os.getuid()}"

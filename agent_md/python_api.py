"""The Python interface: a workspace, opened by a program.

What the commands `run`, `pending`, `respond`, `resume` and `cancel` do, as methods. Every method that drives an execution
comes twice: `run` blocks, `arun` is awaited.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.errors import UnknownRequest, UsageError
from agent_md.executions.answers import client_name
from agent_md.executions.execution import Claim, Event, Execution
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Request
from agent_md.executions.states import Status, TriggerKind
from agent_md.settings import load_settings

__all__ = ["OnEvent", "TextDelta", "Workspace"]

T = TypeVar("T")

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the text of AI message `turn` of an execution, as it comes. None: the pieces so far are void, since the
    model is asked again. The `ai` event that follows has the whole message."""

    execution_id: int
    turn: int
    text: str | None


OnEvent = Callable[[Event | TextDelta], object]
"""Called with each stored event of an execution, in order, and with pieces of text as they come."""


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
        self._patience = deliver_within
        self._place = _CurrentFolder(self._folder)

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
        """Runs an agent here until it ends or waits for an answer, and gives the execution as it is then.

        `args` fill `$1`, `$2`… of the agent's text. With `session` it is the next turn of that session, which begins
        with it if need be. Raises UsageError, with nothing created, if the agent cannot run. An exception of `on_event`
        leaves the execution queued, and so do Ctrl-C and a cancellation: `resume` goes on with it.
        """
        return _blocking(self.arun(agent, message, args=args, session=session, on_event=on_event))

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
        return await self._drive(Claim(created.id, self._app.worker, created.epoch), on_event)

    def resume(self, execution_id: int, *, on_event: OnEvent | None = None) -> Execution:
        """Goes on with an execution until it ends or waits for an answer, and gives it as it is then.

        It is driven here; if a live process drives it, that one is waited for. One that has ended, or waits, is given as
        it is. Raises UnknownExecution.
        """
        return _blocking(self.aresume(execution_id, on_event=on_event))

    async def aresume(self, execution_id: int, *, on_event: OnEvent | None = None) -> Execution:
        """As `resume`."""
        found = self.execution(execution_id)
        sink = _Sink(self._app, found.id, on_event, after=self._last_event(found.id))
        while not found.status.final and found.status is not Status.WAITING:
            claim = self._app.store.claim(found.id, self._app.worker)
            if claim is not None:
                return await self._drive(claim, on_event, sink)
            await self._until_free(found.id, sink)
            found = self._app.store.execution(found.id)
        return found

    def stream(
        self, agent: str, message: str | None = None, *, args: Sequence[str] = (), session: str | None = None
    ) -> Iterator[Event | TextDelta]:
        """As `run`, and gives each event as it comes; the last is of type `waiting` or `complete`.

        A loop that is left early leaves the execution queued.
        """
        events: queue.Queue[Event | TextDelta | None] = queue.Queue()
        running = _Background(self.arun(agent, message, args=args, session=session, on_event=events.put))
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
        """The open requests of one execution or of all, oldest first. Raises UnknownExecution."""
        if execution_id is not None:
            found = self.execution(execution_id)
            return [request for request in self._app.store.requests(found.id) if request.open]
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
        answered_by = _by_us() if by is None else client_name("python", by)
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
        """Aborts an execution that waits, or is left; a live process that drives it is told to. Gives it as it is then.
        Raises UnknownExecution."""
        return _blocking(self.acancel(execution_id))

    async def acancel(self, execution_id: int) -> Execution:
        """As `cancel`."""
        found = self.execution(execution_id)
        self._app.store.request_cancel(found.id, _by_us())
        claim = self._app.store.claim_to_cancel(found.id, self._app.worker)
        return self._app.store.execution(found.id) if claim is None else await self._drive(claim, None)

    # Driving

    async def _drive(self, claim: Claim, on_event: OnEvent | None, sink: _Sink | None = None) -> Execution:
        sink = sink or _Sink(self._app, claim.execution_id, on_event)
        with self._place.entered():
            driving = asyncio.create_task(self._app.runner().advance(claim, sink))
            sink.on_failure = driving.cancel
            try:
                execution = await driving
            except asyncio.CancelledError:
                driving.cancel()
                await asyncio.wait({driving})
                sink.check()
                raise
            sink.check()
        await self._tell(execution.id)
        return execution

    async def _tell(self, execution_id: ExecutionId) -> None:
        app = self._app
        if self._patience > 0 and app.services.notifies(execution_id) and not server_takes_over(app.settings.state_dir):
            await app.services.webhooks(interrupt_delay=0).drain(self._patience)

    async def _until_free(self, execution_id: ExecutionId, sink: _Sink) -> None:
        """Waits until an execution that another process drives is not driven any more."""
        store = self._app.store
        while store.execution(execution_id).status is Status.RUNNING:
            sink.stored()
            sink.check()
            if any(abandoned.id == execution_id for abandoned in store.abandoned()):
                return
            await asyncio.sleep(_POLL_S)
        sink.stored()
        sink.check()

    def _last_event(self, execution_id: ExecutionId) -> int:
        events = self._app.store.events(execution_id)
        return events[-1].seq if events else 0


class _Sink:
    """`agent_md.ports.ProgressSink` that passes on what comes after the event `after`. An exception of the receiver ends
    the drive, and not the execution."""

    def __init__(self, app: App, execution_id: ExecutionId, on_event: OnEvent | None, *, after: int = 0) -> None:
        self._store = app.store
        self._id = execution_id
        self._receive = on_event
        self._after = after
        self._failure: Exception | None = None
        self.on_failure: Callable[[], object] = lambda: None

    def stored(self) -> None:
        for event in self._store.events(self._id, after=self._after) if self._receive else ():
            self._after = event.seq
            self._pass_on(event)

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        self._pass_on(TextDelta(execution_id, turn, text))

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        self._pass_on(TextDelta(execution_id, turn, None))

    def check(self) -> None:
        """Raises what the receiver raised."""
        if self._failure is not None:
            raise self._failure

    def _pass_on(self, event: Event | TextDelta) -> None:
        if self._receive is None or self._failure is not None:
            return
        try:
            self._receive(event)
        except Exception as error:
            self._failure = error
            self.on_failure()


class _CurrentFolder:
    """Makes a folder the current one for as long as anybody is in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._inside = 0
        self._before: str | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                with suppress(FileNotFoundError):  # it was removed under us
                    self._before = os.getcwd()
                os.chdir(self._folder)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0 and self._before is not None:
                    os.chdir(self._before)


class _Background:
    """One coroutine on a loop and a thread of its own."""

    def __init__(self, work: Coroutine[Any, Any, Execution]) -> None:
        self._work = work
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Execution] | None = None
        self._begun = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, at_end: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=self._run, args=(at_end,), name="agentmd stream", daemon=True)
        self._thread.start()

    def _run(self, at_end: Callable[[], object]) -> None:
        async def whole() -> None:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.ensure_future(self._work)
            self._begun.set()
            await asyncio.wait({self._task})

        try:
            asyncio.run(whole())
        finally:
            at_end()

    def stop(self) -> None:
        """Ends it, and returns when it has ended."""
        assert self._thread is not None
        self._begun.wait()
        assert self._loop is not None
        assert self._task is not None
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def result(self) -> Execution:
        assert self._task is not None
        return self._task.result()


def _blocking(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise UsageError("an event loop runs in this thread; await the method whose name begins with `a`, such as `arun`")


def _by_us() -> str:
    """Who answers or cancels, when the program does not say it."""
    try:
        return f"python:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"python:{os.getuid()}"

"""Threads for the code of custom tools, which never runs on the driver's event loop.

Async calls of one module share one event loop, so that its clients and sessions stay usable from call to call. A loop
that does not answer when one of its calls is cancelled is abandoned with its thread, and the module gets a new one.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from agent_md.errors import ClaimLost, OutOfResources
from agent_md.resource_shortages import shortage
from agent_md.sdk import Pause
from agent_md.tools.base import CutOff

__all__ = ["MOST_ABANDONED", "Outcome", "ToolThreads"]

T = TypeVar("T")

log = logging.getLogger(__name__)

MOST_ABANDONED = 32
"""How many threads that did not end a process keeps before it should be replaced by a new one."""

_GRACE_S = 1.0
"""How long a cancelled async call may tidy up before it is left alone."""
_ANSWER_S = 0.7
"""How long a loop may take to show that it is not blocked."""
_CLOSE_S = 0.3
"""How long all loops may take to end when the process is done with them."""


@contextmanager
def _begun_or_not() -> Iterator[None]:
    """Distinguishes a shortage of threads from exceptions of tool code."""
    try:
        yield
    except Exception as error:
        if (short := shortage(error)) is not None:
            raise OutOfResources(short) from error
        raise


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended, as a value: some exceptions cannot pass through a future or a task unharmed."""

    value: Any = None
    error: BaseException | None = None

    def result(self) -> Any:
        """The value. Raises the error if there is one."""
        if self.error is not None:
            raise self.error
        return self.value


class _Reply(Generic[T]):
    """A result that another thread passes to the running loop, once."""

    def __init__(self, too_late: Callable[[T], None] = lambda _: None) -> None:
        """`too_late` gets what nobody waits for any more."""
        self._loop = asyncio.get_running_loop()
        self._too_late = too_late
        self.future: asyncio.Future[T] = self._loop.create_future()

    def give(self, value: T) -> None:
        """May be called on any thread."""
        if self.future.done():
            self._too_late(value)  # here, not on the loop: it may be what blocks
            return
        try:
            self._loop.call_soon_threadsafe(self._set, value)
        except RuntimeError:  # the loop has ended
            self._too_late(value)

    def _set(self, value: T) -> None:
        if self.future.done():
            self._too_late(value)
        else:
            self.future.set_result(value)


class _Run:
    """One async call on its way."""

    def __init__(self, name: str, make: Callable[[], Awaitable[Any]]) -> None:
        self.name = name
        self.make = make
        self.context = contextvars.copy_context()
        self.reply: _Reply[Outcome] = _Reply(lambda outcome: _tell_late(name, outcome))
        self.begun = False
        self.task: asyncio.Task[None] | None = None
        self.loop: _ToolLoop


class _ToolLoop:
    """An event loop on a daemon thread of its own. All methods may be called on any thread."""

    def __init__(self, name: str) -> None:
        with _begun_or_not():
            self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._runs: set[_Run] = set()
        self._over = False
        self._winding: asyncio.Task[None] | None = None
        self.thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            with _begun_or_not():
                self.thread.start()
        except BaseException:
            self._loop.close()
            raise

    def submit(self, run: _Run) -> None:
        """Begins a call in its context as soon as the loop comes to it; its outcome goes to `run.reply`."""
        with self._lock:
            self._runs.add(run)
        run.loop = self
        self._soon(self._begin, run, context=run.context.copy())

    def cancel(self, run: _Run, heard: Callable[[None], None]) -> None:
        """Cancels a call; `heard` is called when the loop processes it. A call that has not started never will."""
        with self._lock:
            begun = run.begun
            if not begun:
                self._runs.discard(run)
        if begun:
            self._soon(self._cancel, run, heard)
        else:
            run.reply.give(Outcome(error=asyncio.CancelledError()))

    def ping(self, heard: Callable[[None], None]) -> None:
        """Calls `heard` when the loop comes to it."""
        self._soon(heard, None)

    def abandon(self) -> list[_Run]:
        """Ends every call that has begun as cut off, and gives the others. The thread ends when nothing blocks it."""
        with self._lock:
            runs, self._runs = self._runs, set()
        for run in runs:
            if run.begun:
                text = f"{run.name} was cut off: a call of its module blocked the event loop that they share"
                run.reply.give(Outcome(error=CutOff(text)))
        self.end(_GRACE_S)
        return [run for run in runs if not run.begun]

    def end(self, grace: float) -> None:
        """Cancels what runs, and ends the thread after `grace` seconds at the latest, unless it is blocked."""
        self._soon(self._begin_winding, grace)

    def _soon(self, function: Callable[..., object], *args: Any, context: contextvars.Context | None = None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(function, *args, context=context)

    # On its thread

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._over:
            try:
                self._loop.run_forever()
            except BaseException as error:  # asyncio lets a task's SystemExit and KeyboardInterrupt end the loop
                _tell_late(self.thread.name, Outcome(error=error))
        self._loop.close()

    def _begin(self, run: _Run) -> None:
        with self._lock:
            if run not in self._runs:
                return
            run.begun = True
        run.task = self._loop.create_task(self._follow(run))

    async def _follow(self, run: _Run) -> None:
        try:
            outcome = Outcome(await run.make())
        except BaseException as error:
            outcome = Outcome(error=error)
        with self._lock:
            self._runs.discard(run)
        run.reply.give(outcome)

    def _cancel(self, run: _Run, heard: Callable[[None], None]) -> None:
        heard(None)
        if run.task is not None:
            run.task.cancel()

    def _begin_winding(self, grace: float) -> None:
        if self._winding is None:
            self._winding = self._loop.create_task(self._wind_up(grace))

    async def _wind_up(self, grace: float) -> None:
        tasks = asyncio.all_tasks() - {self._winding}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        with suppress(Exception):
            await asyncio.wait_for(self._loop.shutdown_asyncgens(), grace)
        self._over = True
        self._loop.stop()


class ToolThreads:
    """Runs code of tools for one process. Threads are made when they are needed."""

    def __init__(self, on_exhausted: Callable[[], None] = lambda: None) -> None:
        """`on_exhausted` is called, on the driver's loop, when MOST_ABANDONED threads did not end."""
        self.on_exhausted = on_exhausted
        self._lock = threading.Lock()
        self._loops: dict[str, _ToolLoop] = {}
        self._left: list[threading.Thread] = []

    @property
    def abandoned(self) -> int:
        """How many threads were left alone and have not ended."""
        with self._lock:
            self._left = [thread for thread in self._left if thread.is_alive()]
            return len(self._left)

    async def on_loop(self, module: str, name: str, make: Callable[[], Awaitable[Any]]) -> Outcome:
        """Runs what `make` gives on the loop of the module, in the context of the caller.

        A cancellation of this is one of the call, which has a second to tidy up and is then left alone; this ends within
        2 s whatever the call does. The outcome is a CutOff if the loop was blocked by another call and given up.
        """
        run = _Run(name, make)
        self._submit(module, run)
        try:
            await asyncio.wait({run.reply.future})
        except asyncio.CancelledError:
            await self._give_up(module, run)
            raise
        return run.reply.future.result()

    async def on_thread(self, name: str, function: Callable[[], Any]) -> Outcome:
        """Runs the function on a daemon thread of its own, in the context of the caller. Raises OutOfResources, with
        nothing started, if no thread is available; so does `on_loop`.

        When it is cancelled it ends at once, and the thread is abandoned."""
        reply: _Reply[Outcome] = _Reply(lambda outcome: _tell_late(name, outcome))
        context = contextvars.copy_context()

        def work() -> None:
            try:
                outcome = Outcome(context.run(function))
            except BaseException as error:
                outcome = Outcome(error=error)
            reply.give(outcome)

        thread = threading.Thread(target=work, name=name, daemon=True)
        with _begun_or_not():
            thread.start()
        try:
            await asyncio.wait({reply.future})
        except asyncio.CancelledError:
            reply.future.cancel()
            self._leave(thread)
            raise
        return reply.future.result()

    async def aside(self, function: Callable[[], T]) -> T:
        """What the function gives or raises, run as by `on_thread`."""
        result: T = (await self.on_thread("checks of a call", function)).result()
        return result

    def close(self) -> None:
        """Ends the loops; what does not end in a moment is left to the end of the process."""
        with self._lock:
            loops = list(self._loops.values())
            self._loops.clear()
        for loop in loops:
            loop.end(_CLOSE_S)
        deadline = time.monotonic() + 2 * _CLOSE_S
        for loop in loops:
            loop.thread.join(max(0.0, deadline - time.monotonic()))

    def _submit(self, module: str, run: _Run) -> None:
        with self._lock:
            loop = self._loops.get(module)
            if loop is None:
                loop = self._loops[module] = _ToolLoop(f"tools of {module}")
            loop.submit(run)

    async def _give_up(self, module: str, run: _Run) -> None:
        loop, ended = run.loop, run.reply.future
        heard: _Reply[None] = _Reply()
        loop.cancel(run, heard.give)
        await _wait_out({ended, heard.future}, _ANSWER_S)
        if not ended.done() and heard.future.done():
            await _wait_out({ended}, _GRACE_S)
            heard = _Reply()  # it has answered; but does it still?
            loop.ping(heard.give)
            await _wait_out({ended, heard.future}, _ANSWER_S)
        if not ended.done() and not heard.future.done():
            self._abandon(module, loop, run.name)
        ended.cancel()

    def _abandon(self, module: str, loop: _ToolLoop, name: str) -> None:
        with self._lock:
            if self._loops.get(module) is not loop:
                return
            del self._loops[module]
        log.warning("%s blocks the event loop of the tools of %s, which is abandoned", name, module)
        for run in loop.abandon():
            self._submit(module, run)
        self._leave(loop.thread)

    def _leave(self, thread: threading.Thread) -> None:
        with self._lock:
            self._left.append(thread)
        if self.abandoned >= MOST_ABANDONED:
            self.on_exhausted()


async def _wait_out(futures: set[asyncio.Future[Any]], seconds: float) -> None:
    """Waits until one is done. A cancellation does not cut this short: it is under way already."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and not any(future.done() for future in futures):
        with suppress(asyncio.CancelledError):
            await asyncio.wait(futures, timeout=left, return_when=asyncio.FIRST_COMPLETED)


def _tell_late(name: str, outcome: Outcome) -> None:
    """What a tool raised when nobody waited for it any more goes where its own output goes."""
    error = outcome.error
    if error is None or isinstance(error, Pause | asyncio.CancelledError | ClaimLost | GeneratorExit):
        return
    with suppress(OSError, ValueError):
        text = "".join(traceback.format_exception(error))
        sys.stderr.write(f"{name} raised after it was given up:\n{text}")

"""Runs coroutines for blocking callers, and changes the current folder while executions are driven."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from agent_md.errors import UsageError
from agent_md.executions.execution import Execution

__all__ = ["BackgroundTask", "CurrentFolder", "blocking"]

T = TypeVar("T")


class CurrentFolder:
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


class BackgroundTask:
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


def blocking(work: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    work.close()
    raise UsageError("an event loop runs in this thread; await the method whose name begins with `a`, such as `arun`")

"""A process that runs out of memory, threads or open files gives its execution back: nothing ends, nothing is counted."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.errors import OutOfResources
from agent_md.executions.states import CallState, Status
from agent_md.resource_shortages import shortage
from tests.support.driving import Workspace, call, turn


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    work = Workspace(tmp_path / "ws")
    yield work
    work.close()


class Raising:
    """A model that cannot answer, because of its process."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def __call__(self, *_: object) -> object:
        raise self._error


SHORT = {
    "memory": MemoryError(),
    "threads": RuntimeError("can't start new thread"),
    "open files": OSError(errno.EMFILE, os.strerror(errno.EMFILE)),
    "threads or processes": OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)),
}


@pytest.mark.parametrize("what", SHORT)
def test_the_execution_is_queued_and_nothing_is_counted(work: Workspace, what: str) -> None:
    work.agent()
    work.model = Raising(SHORT[what])  # type: ignore[assignment]
    with pytest.raises(OutOfResources, match=f"ran out of {what}.*agentmd resume 1"):
        work.start()
    assert (work.execution.status, work.execution.attempts, work.execution.error) == (Status.QUEUED, 0, None)
    work.model = None
    work.go_on()
    work.check_succeeded()


@pytest.mark.parametrize("way", ["def", "async def"])
def test_a_call_that_gets_no_thread_was_not_run(work: Workspace, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work.tools(f"""
        @tool
        {way} it() -> str:
            \"\"\"It.\"\"\"
            return effect("ran")
        """)
    work.agent("tools: [kit]")
    work.script(turn(call("it")), "Done.")
    start = threading.Thread.start

    def refused(thread: threading.Thread) -> None:
        if thread.name.startswith("tool"):
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(OutOfResources, match="ran out of threads"):
            work.start()
    assert (work.execution.status, work.execution.attempts) == (Status.QUEUED, 0)
    assert work.calls()[0].state is CallState.PROPOSED
    work.go_on()
    work.check_succeeded()
    assert work.effects() == {"ran": 1}


def test_what_is_no_shortage() -> None:
    assert shortage(RuntimeError("odd")) is None
    assert shortage(OSError(errno.ENOSPC, "full")) is None


def test_it_is_found_in_what_an_error_came_from_and_open_files_have_their_limit() -> None:
    error = ValueError("cannot be read")
    error.__cause__ = OSError(errno.EMFILE, "files", "/a/b.txt")
    found = shortage(ExceptionGroup("many", [KeyError(), error]))
    assert found is not None
    assert found.startswith("open files (/a/b.txt cannot be opened: too many open files. This process may have ")
    assert shortage(OutOfResources(found)) == found  # told once, however often it is raised anew

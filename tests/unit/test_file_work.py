"""The work of file tools is given up when it takes too long, and then changes nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from agent_md.errors import ToolError
from agent_md.tools.base import CutOff
from agent_md.tools.file_work import Commit, carry_out
from agent_md.tools.pinned_path import ABSENT, open_pinned
from agent_md.tools.threads import ToolThreads
from tests.support.file_sandbox import make_workspace, sandbox_on


class Work:
    """Waits to be let go on before its change, within it, or not at all."""

    def __init__(self, *, in_change: bool) -> None:
        self._in_change = in_change
        self.begun, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.changed = False

    def __call__(self, commit: Commit) -> str:
        try:
            if not self._in_change:
                self._wait()
            with commit():
                if self._in_change:
                    self._wait()
                self.changed = True
            return "done"
        finally:
            self.ended.set()

    def _wait(self) -> None:
        self.begun.set()
        assert self.go_on.wait(30)


async def _begun(work: Work, limit: float | None = None) -> asyncio.Task[str]:
    task = asyncio.create_task(carry_out(ToolThreads(), "file_write", work, limit))
    await asyncio.to_thread(work.begun.wait, 30)
    return task


async def _ended(work: Work) -> None:
    work.go_on.set()
    await asyncio.to_thread(work.ended.wait, 30)


async def test_a_change_that_is_not_reached_in_time_does_not_happen() -> None:
    work = Work(in_change=False)
    task = await _begun(work, 0.05)
    with pytest.raises(ToolError, match="given up; nothing was changed"):
        await task
    await _ended(work)
    assert not work.changed


async def test_neither_does_one_that_is_cancelled_before() -> None:
    work = Work(in_change=False)
    task = await _begun(work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await _ended(work)
    assert not work.changed


@pytest.mark.parametrize("how", ["time", "cancel"])
async def test_a_change_that_is_happening_is_waited_for(how: str) -> None:
    work = Work(in_change=True)
    task = await _begun(work, 0.05 if how == "time" else None)
    if how == "cancel":
        task.cancel()
    await asyncio.wait({task}, timeout=0.2)
    assert not task.done()
    await _ended(work)
    if how == "time":
        assert await task == "done"
    else:
        with pytest.raises(asyncio.CancelledError):
            await task
    assert work.changed


async def test_one_that_never_ends_may_have_run() -> None:
    work = Work(in_change=True)
    task = await _begun(work, 0.05)
    with pytest.raises(CutOff):
        await task
    await _ended(work)


@pytest.mark.parametrize("change", ["replace", "remove", "move_to"])
def test_no_change_of_a_file_gets_past_being_given_up(tmp_path: Path, change: str) -> None:
    workspace = make_workspace(tmp_path)
    sandbox = sandbox_on(workspace)
    before = {path: path.read_bytes() for path in workspace.rglob("*") if path.is_file()}
    commit = Commit()
    assert commit.give_up()
    with (
        open_pinned(sandbox, sandbox.resolve("notes.txt", write=True)) as place,
        open_pinned(sandbox, sandbox.resolve("other.txt", write=True)) as other,
    ):
        assert other.state() == ABSENT
        arguments = {"replace": (b"new", place.state()), "remove": (place.state(),), "move_to": (other, place.state())}
        with pytest.raises(ToolError, match="given up before anything was done"):
            getattr(place, change)(*arguments[change], commit)
    assert {path: path.read_bytes() for path in workspace.rglob("*") if path.is_file()} == before

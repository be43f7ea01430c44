"""The memory of an agent over its executions: asked about like other calls, and named in the prompt of the next one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.executions.states import Status
from agent_md.tools.memory import memory_notice
from tests.support.driving import Workspace, call, turn


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


def test_what_one_execution_saved_the_next_one_finds(work: Workspace) -> None:
    work.agent()
    work.script(turn(call("memory_append", section="People", content="Ann: chief")), "Done.")
    work.start()
    work.check_succeeded()
    memory = work.app.assembly.memory(work.app.registry.get("worker").spec)
    assert memory_notice(memory) == "Your memory has these sections: People"
    work.script(turn(call("memory_retrieve", section="People")), "Done.")
    work.start()
    work.check_succeeded()
    assert work.result() == "Ann: chief"


def test_a_guarded_change_shows_its_difference_and_happens_once(work: Workspace) -> None:
    work.agent("confirm: [memory_save]")
    work.script(turn(call("memory_save", section="Facts", content="one")), "Done.")
    work.start()
    assert work.execution.status is Status.WAITING
    (request,) = work.app.store.open_requests()
    assert request.preview is not None
    assert request.preview.diff is not None
    assert "+## Facts" in request.preview.diff
    work.restart(lose_checkpoints=True)
    work.answer()
    work.check_succeeded()
    assert work.result() == "Memory saved: Facts"
    assert (work.folder / "agents/worker.memory.md").read_text() == "## Facts\n\none\n"

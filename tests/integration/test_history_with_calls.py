"""A turn whose conversation has calls in it already pauses and goes on like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.executions.states import Status
from tests.support.driving import Workspace, call, turn


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools("")
    workspace.agent("tools: [kit]\nconfirm: [danger]")
    workspace.script(turn(call("danger", key="A")), "Done.")
    yield workspace
    workspace.close()


@pytest.mark.parametrize("lose_checkpoints", [False, True])
def test_the_next_turn_of_a_session_is_resumed(
    work: Workspace, lose_checkpoints: bool, caplog: pytest.LogCaptureFixture
) -> None:
    work.start(session_id="s")
    work.answer()
    assert work.start(session_id="s").status is Status.WAITING
    assert "tool" in [message.type for message in work.histories[-1]]
    work.restart(lose_checkpoints=lose_checkpoints)
    work.record(work.the_request(), {"approved": True})
    claim = work.app.store.claim(work.execution.id, work.app.worker)
    assert claim is not None
    ended = asyncio.run(asyncio.wait_for(work.advance(claim), 20))
    assert ended.status is Status.SUCCESS
    assert work.effects() == {"A": 2}
    assert not caplog.records

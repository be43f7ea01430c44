"""A call that is ended before its own end, after it has done steps: they happened, and everybody is told so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.executions.states import CallOutcome, CallState, Outcome, Status
from agent_md.ports.store import NewAnswer
from tests.support.driving import Workspace, call, turn

KIT = '''
import asyncio

def fail(key):
    effect(key)
    raise ValueError(key)

@tool
def asks() -> str:
    """Two steps, and a question."""
    step(effect, "a")
    try:
        step(fail, "b")
    except ValueError:
        pass
    return request_input("And now?")

@tool
def asks_first() -> str:
    """A question, and nothing before it."""
    return request_input("And now?")

@tool
@tool_options(timeout=0.3)
async def hangs() -> str:
    """A step, and no end."""
    step(effect, "a")
    await asyncio.Event().wait()

@tool
def fails() -> str:
    """A step, and an error of its own."""
    step(effect, "a")
    raise ValueError("no")
'''
STEPS = "These steps of it are done: kit.effect"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


def start(work: Workspace, tool: str) -> None:
    work.tools(KIT)
    work.agent("tools: [kit]")
    work.script(turn(call(tool)), "Done.")
    work.start()


def cancel(work: Workspace) -> None:
    work.app.store.request_cancel(work.execution.id, "ann")
    claim = work.app.store.claim_to_cancel(work.execution.id, work.app.worker)
    assert claim is not None
    work.drive(claim)
    assert work.execution.status is Status.ABORTED


@pytest.mark.parametrize("lose_checkpoints", [False, True])
def test_one_that_waits_and_is_cancelled_is_unknown(work: Workspace, lose_checkpoints: bool) -> None:
    start(work, "asks")
    work.restart(lose_checkpoints=lose_checkpoints)
    cancel(work)
    (found,) = work.calls()
    assert (found.state, found.outcome) == (CallState.UNKNOWN, CallOutcome.UNKNOWN)
    assert STEPS in work.result()
    assert "these steps of it raised: kit.fail" in work.result()
    assert "waited for an answer" in work.result()
    assert work.effects() == {"a": 1, "b": 1}


def test_one_that_waits_without_any_did_nothing(work: Workspace) -> None:
    start(work, "asks_first")
    cancel(work)
    (found,) = work.calls()
    assert (found.state, found.outcome) == (CallState.FINISHED, CallOutcome.FAILED)
    assert work.result().startswith("Not finished: ")


def test_one_that_is_beyond_its_limit_names_them(work: Workspace) -> None:
    start(work, "hangs")
    work.check_succeeded()
    assert work.calls()[0].outcome is CallOutcome.UNKNOWN
    assert "did not end within 0.3 s" in work.result()
    assert STEPS in work.result()


def test_one_whose_driver_died_names_them(work: Workspace) -> None:
    start(work, "asks")
    work.record(work.the_request(), {"text": "on"})
    claim = work.app.store.claim(work.execution.id, work.app.worker)
    assert claim is not None
    work.app.store.journal(claim).start_call(work.calls()[0].position, {}, None)
    work.restart()
    work.go_on()
    assert work.calls()[0].outcome is CallOutcome.UNKNOWN
    assert STEPS in work.result()


def test_one_whose_tool_is_gone_is_unknown(work: Workspace) -> None:
    start(work, "asks")
    work.restart(meanwhile=(work.folder / "agents/_config/tools/kit.py").unlink)
    work.answer(response={"text": "on"})
    work.check_succeeded()
    assert work.calls()[0].outcome is CallOutcome.UNKNOWN
    assert "the tool asks is gone" in work.result()
    assert STEPS in work.result()


def test_one_that_was_edited_and_is_denied_then_says_so(work: Workspace) -> None:
    start(work, "asks")
    work.tools(KIT + "\n# a remark\n")
    work.restart()
    work.answer(response={"text": "on"})
    work.app.store.record_answers([NewAnswer(work.the_request().id, Outcome.DENIED, {"approved": False})], by="ann")
    work.go_on()
    work.check_succeeded()
    assert work.calls()[0].outcome is CallOutcome.DENIED
    assert STEPS in work.result()


def test_one_that_came_to_an_end_of_its_own_is_not_changed(work: Workspace) -> None:
    start(work, "fails")
    work.check_succeeded()
    assert work.calls()[0].outcome is CallOutcome.FAILED
    assert "steps" not in work.result()

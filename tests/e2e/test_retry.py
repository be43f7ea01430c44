"""`retry`: a failed execution is begun anew with the message it was given, by a command or over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status, TriggerKind
from tests.support.processes import preload
from tests.support.server import Server, wait_for
from tests.support.world import World

FAILS = """
conversations:
  - turns:
      - {calls: [{name: plain, args: {key: U}}]}
      - {text: x, error: {kind: bad_request, message: too long}}
"""
WORKS = "conversations: [{turns: [{text: Done.}]}]"


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    preload()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "ws")


def script(world: World, text: str) -> None:
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(text)


@pytest.fixture
def failed(world: World) -> World:
    """Execution 1 has failed, after a call that ran."""
    script(world, FAILS)
    assert world.cli("run", "worker", "-m", "Clean up").code == 1
    script(world, WORKS)
    return world


def test_it_is_told_the_same_and_says_what_ran_before(failed: World) -> None:
    again = failed.cli("retry", "1")
    assert again.code == 0, again
    assert "Done." in again.out
    assert "note: call 0.0 (plain) of execution 1 ran" in again.err
    assert "note: it begins with 3 earlier messages\n" in again.err
    new = failed.execution(2)
    assert (new.status, new.trigger, new.agent) == (Status.SUCCESS, TriggerKind.MANUAL, "worker")
    store = failed.store()
    (old_text, new_text) = ([m["data"]["content"] for m in store.seed(ExecutionId(number))] for number in (1, 2))
    assert (old_text[0], old_text[-1]) == (new_text[0], new_text[-1])
    assert "Clean up" in new_text[-1]
    store.close()


def test_one_that_may_have_run_is_named(world: World) -> None:
    assert world.cli("run", "worker", env={"KILL_IN_TOOL": "U:after"}).killed
    world.cli("resume", "1")
    assert world.cli("cancel", "1").code == 0
    script(world, WORKS)
    again = world.cli("retry", "1")
    assert again.code == 0, again
    assert "note: call 0.2 (plain) of execution 1 may have run" in again.err


def test_one_of_a_session_is_a_turn_of_it(world: World) -> None:
    script(world, FAILS)
    with Server(world.workspace) as server:
        body = {"message": "Clean up", "session_id": "s1"}
        number = server.client.post("/agents/worker/run", body).body["execution_id"]
        wait_for(server.client, number, "error")
        script(world, WORKS)
        answer = server.client.post(f"/executions/{number}/retry")
        assert answer.status == 200, answer
        assert answer.body["ran"] == ["call 0.0 (plain)"]
        assert answer.body["may_have_run"] == []
        new = answer.body["execution_id"]
        wait_for(server.client, new, "success")
        assert world.execution(new).session_id == "s1"
        assert world.execution(new).trigger is TriggerKind.API
        again = server.client.post(f"/executions/{new}/retry")
        assert again.status == 422
        assert server.client.post("/executions/99/retry").status == 404


def test_one_that_has_not_ended_is_refused(world: World) -> None:
    world.begin()
    refused = world.cli("retry", "1")
    assert refused.code == 6
    assert "execution 1 has not ended (waiting)" in refused.err
    store = world.store()
    assert len(store.executions()) == 1
    store.close()


def test_one_that_succeeded_is_refused(world: World) -> None:
    script(world, WORKS)
    assert world.cli("run", "worker").code == 0
    refused = world.cli("retry", "1")
    assert refused.code == 2
    assert "agentmd run worker" in refused.err


def test_resume_names_it(failed: World) -> None:
    late = failed.cli("resume", "1")
    assert late.code == 6
    assert "agentmd retry 1" in late.err

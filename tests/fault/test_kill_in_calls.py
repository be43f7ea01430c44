"""kill -9 inside tools and inside the model's answer; stopped processes; poisoned executions."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, Status
from tests.support.processes import Running
from tests.support.waiting import until
from tests.support.world import Story, World

PROCESSES = {"U": 0, "A": 1, "C": 3, "V": 3, "Q-first": 5, "Q-second": 6}
"""In which process of the story the effects are: U and V need no answer, the others run again after one."""


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("key", PROCESSES)
def test_killed_in_a_tool(story: Story, key: str, moment: str) -> None:
    world = story.before(PROCESSES[key])
    assert world.step(env={"KILL_IN_TOOL": f"{key}:{moment}"}).killed
    world.finish()
    world.check()
    assert world.effects()[key] == (1 if moment == "after" else 0)


def test_a_call_that_may_have_run_says_so_to_the_model_and_the_human(world: World) -> None:
    assert world.cli("run", "worker", env={"KILL_IN_TOOL": "U:after"}).killed
    world.cli("resume", "--all")
    store = world.store()
    call = store.call(ExecutionId(1), Position(0, 2))
    store.close()
    assert call is not None
    assert call.outcome is CallOutcome.UNKNOWN
    assert "may have run" in world.cli("logs", "-e", "1").out


def _slow_model(world: World) -> None:
    script = world.workspace / "agents/_config/scripts/worker.yaml"
    script.write_text("conversations:\n  - turns:\n      - {delay: 60s, text: Late., usage: {input: 5, output: 5}}\n")


def _in_model_call(world: World) -> Running:
    running = world.cli.start("run", "worker")
    until(lambda: world.in_flight() == "model call 0")
    return running


def test_killed_in_the_model_call(world: World) -> None:
    script = (world.workspace / "agents/_config/scripts/worker.yaml").read_text()
    _slow_model(world)
    running = _in_model_call(world)
    running.kill()
    running.wait()
    assert world.status() is Status.RUNNING
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(script)
    assert world.finish() is Status.SUCCESS
    world.check()


def test_a_stopped_driver_keeps_its_execution_and_a_dead_one_loses_it_at_once(world: World) -> None:
    _slow_model(world)
    running = _in_model_call(world)
    running.kill(signal.SIGSTOP)
    refused = world.cli("resume", "1")
    assert refused.code == 6, refused
    assert "live process" in refused.err
    assert "Nothing to resume" in world.cli("resume").out
    running.kill(signal.SIGKILL)
    running.wait()
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(
        "conversations:\n  - turns:\n      - {text: Taken over.}\n"
    )
    taken = world.cli("resume", "1")
    assert taken.code == 0, taken
    assert "Taken over." in taken.out


def test_three_deaths_in_the_same_model_call_stop_the_execution(world: World) -> None:
    _slow_model(world)
    running = world.cli.start("run", "worker")
    for epoch, command in enumerate([("resume", "1"), ("resume", "1"), None], start=1):
        until(lambda epoch=epoch: world.is_in_flight("model call 0", epoch))
        running.kill()
        running.wait()
        running = world.cli.start(*command) if command else running
    stopped = world.cli("resume", "1")
    assert stopped.code == 1, stopped
    assert "poisoned" in stopped.out
    assert "model call 0" in stopped.out
    assert "agentmd retry 1" in stopped.out
    assert world.status() is Status.ERROR
    late = world.cli("resume", "1")
    assert late.code == 6, late


def test_an_idempotent_tool_that_always_kills_is_stopped_too(world: World) -> None:
    tools = world.workspace / "agents/_config/tools/effects.py"
    harmless = "@tool\ndef danger"
    assert harmless in tools.read_text()
    tools.write_text(tools.read_text().replace(harmless, "@tool\n@tool_options(idempotent=True)\ndef danger"))
    env = {"KILL_IN_TOOL": "A:before"}
    world.cli("run", "worker")
    assert world.respond(world.open_requests()[0], env=env).killed
    assert world.cli("resume", "1", env=env).killed
    stopped = world.cli("resume", "1", env=env)
    assert stopped.code == 1, stopped
    assert "poisoned" in stopped.out
    assert "call 0.0 (danger)" in stopped.out
    assert world.status() is Status.ERROR
    assert world.effects()["A"] == 0


def test_a_checkpoint_copy_of_another_time_repeats_nothing(world: World, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    world.cli("run", "worker")
    world.copy_checkpoints(copy)
    replaced = 0
    while world.status() is Status.WAITING and replaced < 20:
        world.respond(world.open_requests()[0])
        world.lose_checkpoints(copy)
        replaced += 1
    assert 3 <= replaced < 20
    assert world.finish() is Status.SUCCESS
    world.check()

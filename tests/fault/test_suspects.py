"""One execution that kills its process does not end its neighbours; a kill from outside ends nobody."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from agent_md.app import App
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, Outcome, Status
from agent_md.ports.store import NewAnswer
from agent_md.settings import load_settings
from tests.support.server import Server
from tests.support.trusting import TRUSTING
from tests.support.waiting import until
from tests.support.world import World

MANY = 20
A_FEW = 3
AT_ONCE = 3

_TOOLS = '''
import os, signal
from agent_md.sdk import context, tool_options
from langchain_core.tools import tool

@tool
@tool_options(idempotent=True)
def deadly(key: str) -> str:
    """Ends its process, each time."""
    os.kill(os.getpid(), signal.SIGKILL)

@tool
def danger(key: str) -> str:
    """Guarded."""
    out = os.open(context().workspace / "world.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, f"{context().execution_id}\\n".encode())
    os.close(out)
    return "did it"
'''
_AGENT = """---
name: {name}
model: {{provider: script, name: {name}}}
tools: [effects]
confirm: [deadly, danger]
on_pending: parallel
---
Work.
"""
_SCRIPT = """
conversations:
  - turns:
      - {{calls: [{{name: {tool}, args: {{key: A}}}}]}}
      - {{delay: 1s, text: Done.}}
"""


class Crowd:
    """Healthy executions and a deadly one, all approved and queued; the deadly one is in the given place."""

    def __init__(self, world: World, healthy: int, place: int) -> None:
        self.world = world
        config = world.workspace / "agents/_config"
        (config / "tools/effects.py").write_text(_TOOLS)
        for name, tool in (("healthy", "danger"), ("killer", "deadly")):
            (world.workspace / f"agents/{name}.md").write_text(_AGENT.format(name=name))
            (config / f"scripts/{name}.yaml").write_text(_SCRIPT.format(tool=tool))
        (world.workspace / "config.yaml").write_text(f"server: {{max_concurrent: {AT_ONCE}}}\n")
        settings = load_settings(
            world.workspace, environ=TRUSTING, cwd=world.workspace, home=world.workspace / "nobody"
        )
        app = App(settings)
        for index in range(healthy + 1):
            app.starter.start("killer" if index == place else "healthy", claimed=False)
        app.close()
        with Server(world.workspace) as server:
            until(lambda: len(self.open_requests()) == healthy + 1)
            assert server.stop().code == 0
        store = world.store()
        for request in store.open_requests():
            store.record_answers([NewAnswer(request.id, Outcome.APPROVED, {"approved": True})], by="cli:ann")
        store.close()
        self.killer = ExecutionId(place + 1)

    def open_requests(self) -> list[object]:
        store = self.world.store()
        try:
            return list(store.open_requests())
        finally:
            store.close()

    def ended(self) -> bool:
        store = self.world.store()
        try:
            return all(execution.status.final for execution in store.executions())
        finally:
            store.close()

    def serve_to_the_end(self) -> int:
        """Starts a server whenever there is none; gives how often one died."""
        deaths = 0
        while True:
            with Server(self.world.workspace) as server:
                until(lambda server=server: self.ended() or server.process.ended, patience=240)
                if not server.process.ended:
                    assert server.stop().code == 0
                    return deaths
            deaths += 1

    def check(self) -> None:
        store = self.world.store()
        try:
            executions = {execution.id: execution for execution in store.executions()}
            killed = executions.pop(self.killer)
            assert {execution.status for execution in executions.values()} == {Status.SUCCESS}, executions
            assert killed.status is Status.ERROR
            assert "stopped as poisoned: 2 attempts in a row" in (killed.error or "")
            assert "call 0.0 (deadly)" in (killed.error or "")
            assert f"agentmd retry {killed.id}" in (killed.error or "")
            call = store.call(killed.id, Position(0, 0))
            assert call is not None
            assert call.outcome is CallOutcome.UNKNOWN
            outcomes = {number: store.call(number, Position(0, 0)).outcome for number in executions}
        finally:
            store.close()
        effects = self.world.effects()
        assert set(effects.values()) == {1}
        cut = {number for number, outcome in outcomes.items() if outcome is CallOutcome.UNKNOWN}
        assert len(cut) < AT_ONCE  # those that were beside it when it died may have been in their call
        assert {outcomes[number] for number in executions.keys() - cut} == {CallOutcome.DONE}
        assert {int(number) for number in effects} | cut == executions.keys()


def check_crowd(world: World, healthy: int, place: int) -> None:
    crowd = Crowd(world, healthy, place)
    assert crowd.serve_to_the_end() == 1
    crowd.check()


def test_a_deadly_one_ends_none_of_its_neighbours(world: World) -> None:
    check_crowd(world, A_FEW, random.randrange(A_FEW + 1))


@pytest.mark.stress
@pytest.mark.parametrize("place", range(MANY + 1))
def test_a_deadly_one_in_every_order_of_claims(world: World, place: int) -> None:
    check_crowd(world, MANY, place)


def test_a_module_that_kills_when_it_is_loaded_is_stopped_and_can_be_cancelled(world: World) -> None:
    """The place of death is before any call; neither the end nor a cancellation loads it again."""
    effects = world.workspace / "agents/_config/tools/effects.py"
    for how in ("resume", "cancel"):
        assert world.cli("run", "worker").code == 3 or how == "cancel"
        number = 1 if how == "resume" else 2
        if how == "cancel":
            agent = world.workspace / "agents/worker.md"
            agent.write_text(
                agent.read_text().replace("name: worker\nmodel", "name: worker\non_pending: parallel\nmodel")
            )
            assert world.cli("run", "worker").code == 3
        store = world.store()
        (first, *_) = [request for request in store.requests(ExecutionId(number)) if request.open]
        store.close()
        assert world.cli("respond", str(number), "--request", first.id, "--yes", "--no-wait").code == 0
        source = effects.read_text()
        effects.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
        if how == "resume":
            assert [world.cli("resume", str(number)).killed for _ in range(3)] == [True] * 3
            stopped = world.cli("resume", str(number))
            assert stopped.code == 1
            assert "outside its model and tool calls" in stopped.out
            assert "Approved, and not run: call 0.0 (danger)" in stopped.out
        else:
            assert world.cli("cancel", str(number)).code == 0
            assert world.execution(number).status is Status.ABORTED
        effects.write_text(source)


def check_kills_at_the_start(world: World, rounds: int) -> None:
    """`resume` as people start it, killed three times within a second; then it goes on to its next question."""
    world.cli("run", "worker")
    for _ in range(rounds):
        if world.status() is not Status.WAITING:
            break
        request = world.open_requests()[0]
        flags = ("--yes",) if request.source.value == "gate" else ("--text", "Ann")
        command = ("respond", "1", "--request", request.id, *flags, "--no-wait")
        assert world.cli(*command).code == 0
        for _ in range(3):
            started = [sys.executable, "-m", "agent_md.cli.main", "-w", str(world.workspace), "resume", "1", "--quiet"]
            with subprocess.Popen(started, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                try:
                    process.wait(random.random())
                except subprocess.TimeoutExpired:
                    process.kill()
        if world.status() is Status.WAITING:
            continue
        assert world.cli("resume", "1").code in (0, 3), world.execution()
    assert world.status() in (Status.WAITING, Status.SUCCESS)


def test_three_kills_within_a_second_of_the_start_of_resume(world: World) -> None:
    check_kills_at_the_start(world, 1)


@pytest.mark.stress
@pytest.mark.parametrize("number", range(10))
def test_three_kills_within_a_second_ten_times_over(world: World, number: int) -> None:
    check_kills_at_the_start(world, 3)


def test_kills_right_after_the_claim_count_nothing(world: World) -> None:
    script = world.workspace / "agents/_config/scripts/worker.yaml"
    script.write_text("conversations: [{turns: [{text: Done.}]}]")
    settings = load_settings(world.workspace, environ=TRUSTING, cwd=world.workspace, home=world.workspace / "nobody")
    app = App(settings)
    app.starter.start("worker", claimed=False)
    app.close()
    for point in range(1, 40):
        assert world.cli("resume", "1", kill_before_write=point).killed
        if world.execution().status is Status.RUNNING and world.in_flight() is not None:
            break
        store = world.store()
        store.settle_deaths()
        store.close()
        assert world.execution().attempts == 0
    assert world.in_flight() == "outside its model and tool calls"
    assert world.cli("resume", "1").code == 0


def test_killed_work_counts_for_the_timeout(world: World) -> None:
    """A tool of 3.5 s in an execution of 4 s, killed at 1.7 s, does not end well after 5.2 s."""
    tools = world.workspace / "agents/_config/tools/effects.py"
    tools.write_text('''
import time
from agent_md.sdk import context, tool_options
from langchain_core.tools import tool

@tool
@tool_options(read_only=True)
def slow() -> str:
    """Reads for long."""
    with open(context().workspace / "world.log", "a") as log:
        log.write("slow\\n")
    time.sleep(3.5)
    return "read"
''')
    agent = world.workspace / "agents/worker.md"
    agent.write_text(agent.read_text().replace("confirm: [danger]", "settings: {timeout: 4}"))
    script = world.workspace / "agents/_config/scripts/worker.yaml"
    script.write_text("conversations: [{turns: [{calls: [{name: slow}]}, {text: Done.}]}]")
    running = world.cli.start("run", "worker")
    until(lambda: world.effects()["slow"] == 1)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 1.7)
    running.kill()
    running.wait()
    assert world.cli("resume", "1").code == 5
    ended = world.execution()
    assert ended.status is Status.TIMEOUT
    assert ended.work_ms >= 3900


def test_a_kill_after_an_order_to_stop_counts_nothing(world: World) -> None:
    """A service manager sends SIGTERM, and SIGKILL when that does not help."""
    tools = world.workspace / "agents/_config/tools/effects.py"
    tools.write_text(
        tools.read_text()
        + '''
@tool
@tool_options(idempotent=True)
def stubborn() -> str:
    """Is told to stop, and is killed before its process could."""
    os.kill(os.getpid(), signal.SIGTERM)
    noted = context().workspace / ".agentmd/workers"
    while not any(" 1 " in file.read_text() for file in noted.glob("*.lock")):
        pass
    os.kill(os.getpid(), signal.SIGKILL)
'''
    )
    script = world.workspace / "agents/_config/scripts/worker.yaml"
    script.write_text("conversations: [{turns: [{calls: [{name: stubborn}]}, {text: Done.}]}]")
    for _ in range(4):
        assert world.cli(*(("run", "worker") if world.status() is None else ("resume", "1"))).killed
    store = world.store()
    store.settle_deaths()
    store.close()
    assert (world.execution().attempts, world.execution().suspect) == (0, False)


def test_a_suspect_is_driven_outside_of_the_server_until_it_is_none(world: World) -> None:
    script = world.workspace / "agents/_config/scripts/worker.yaml"
    slow = "conversations: [{turns: [{delay: 60s, text: Late.}]}]"
    script.write_text(slow)
    running = world.cli.start("run", "worker")
    until(lambda: world.in_flight() == "model call 0")
    running.kill()
    running.wait()
    with Server(world.workspace) as server:
        until(lambda: world.in_flight() == "model call 0", patience=90)
        info = server.client.get("/info").body
        store = world.store()
        worker = store.execution(ExecutionId(1)).worker
        store.close()
        assert worker is not None
        holder = int((world.workspace / ".agentmd/agentmd.db").exists() and _pid_of(world, worker))
        assert holder != info["pid"]
        os.kill(holder, signal.SIGKILL)
        script.write_text(slow.replace("delay: 60s, ", ""))
        until(lambda: world.status() is Status.SUCCESS, patience=90)
        assert server.stop().code == 0


def _pid_of(world: World, worker: str) -> int:
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(world.workspace / ".agentmd/agentmd.db")) as database:
        (pid,) = database.execute("SELECT pid FROM workers WHERE id = ?", (worker,)).fetchone()
    return int(pid)

"""A process that cannot go on well gives its executions back, uncounted: a server starts anew, a command ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_md.api.address import Address, read_address
from agent_md.api.server import Listen, serve
from agent_md.app import App
from agent_md.cli.command_context import open_app
from agent_md.cli.drive.drive_or_follow import drive_or_follow
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.run_output import choose_output
from agent_md.client.server_process import start_anew
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from tests.support.children import leave_after, open_streams
from tests.support.processes import preload
from tests.support.server import Client
from tests.support.waiting import until
from tests.support.world import World

SLOW = "conversations: [{turns: [{delay: 60s, text: Late.}]}]"
QUICK = "conversations: [{turns: [{text: Done.}]}]"
HOLDING = "conversations: [{turns: [{calls: [{name: hold}]}, {text: Done.}]}]"
_TOOLS = """
import time
from agent_md.sdk import context
from langchain_core.tools import tool

@tool
def hold() -> str:
    '''Works until it is let go.'''
    with (context().workspace / "world.log").open("a") as log:
        log.write("hold\\n")
    while not (context().workspace / "go").exists():
        time.sleep(0.01)
    return "held"
"""
REASON = "32 of its threads are blocked"


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    preload()


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path / "ws")
    script(world, SLOW)
    return world


def script(world: World, text: str) -> None:
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(text)


def forked(work: Callable[[], object], errors: Path) -> int:
    """The number of a new process that does this work, its standard error in a file."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT, 0o600), 2)
        open_streams()
        leave_after(work)
    return pid


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


async def never_alone(execution_id: ExecutionId) -> None:
    raise AssertionError(f"execution {execution_id} is a suspect")


def ask_when(condition: Callable[[], object], app: App) -> None:
    def ask() -> None:
        until(condition)
        app.hand_back.ask(REASON)

    threading.Thread(target=ask).start()


def the_execution(world: World) -> Execution:
    store = world.store()
    try:
        return store.execution(ExecutionId(1))
    finally:
        store.close()


def test_a_server_lets_calls_end_starts_anew_under_its_number_and_goes_on(world: World, tmp_path: Path) -> None:
    (world.workspace / "agents/_config/tools/effects.py").write_text(_TOOLS)
    agent = world.workspace / "agents/worker.md"
    agent.write_text(agent.read_text().replace("confirm: [danger]", ""))
    script(world, HOLDING)

    def serve_until_it_gives_back() -> None:
        with open_app(world.workspace, drives=True) as app:
            app.starter.start("worker", claimed=False)

            def ask_while_it_holds(_: Address) -> None:
                ask_when(lambda: world.effects()["hold"], app)

            assert serve(app, Listen(), ask_while_it_holds, never_alone)
            given_back = app.store.execution(ExecutionId(1))
            assert (given_back.status, given_back.attempts) == (Status.QUEUED, 0)
        start_anew(app.settings, None, None, None)

    pid = forked(serve_until_it_gives_back, tmp_path / "err")
    state = world.workspace / ".agentmd"
    until(lambda: (found := read_address(state)) is not None and found.stopping)
    config = world.workspace / "config.yaml"
    config.write_text("server: {half")
    (world.workspace / "go").touch()
    until(lambda: "starts anew when the configuration is valid" in (state / "agentmd.log").read_text())
    config.unlink()
    until(lambda: world.status() is Status.SUCCESS, patience=90)
    assert world.effects() == {"hold": 1}
    until(lambda: (found := read_address(state)) is not None and not found.stopping)
    address = read_address(state)
    assert address is not None
    assert address.pid == pid
    client = Client(Path(address.socket))
    until(client.healthy, patience=60)
    assert client.get("/executions/1").body["output_data"] == "Done."
    os.kill(pid, signal.SIGTERM)
    assert exit_code(pid) == 0


def test_one_that_is_stopped_meanwhile_does_not_start_anew(world: World, tmp_path: Path) -> None:
    """What runs has 3 s to end, in which somebody asks for another kind of end."""

    def ask_for_both(app: App) -> None:
        def ask() -> None:
            until(lambda: world.status() is Status.RUNNING)
            app.hand_back.ask(REASON)
            until(lambda: (address := read_address(world.workspace / ".agentmd")) is not None and address.stopping)
            os.kill(os.getpid(), signal.SIGTERM)

        threading.Thread(target=ask).start()

    def serve_until_it_is_stopped() -> None:
        with open_app(world.workspace, drives=True) as app:
            app.starter.start("worker", claimed=False)
            assert not serve(app, Listen(), lambda _: ask_for_both(app), never_alone)

    assert exit_code(forked(serve_until_it_is_stopped, tmp_path / "err")) == 0, (tmp_path / "err").read_text()
    assert the_execution(world).status is Status.QUEUED


def test_a_command_ends_says_why_and_how_to_go_on(world: World, tmp_path: Path) -> None:
    def run_until_it_gives_back() -> None:
        with open_app(world.workspace, drives=True) as app:
            execution = app.starter.start("worker")
            ask_when(lambda: world.in_flight() == "model call 0", app)
            follower = EventFollower(app, execution.id, choose_output(execution, quiet=True, as_json=False))
            sys.exit(drive_or_follow(app, follower, Claim(execution.id, app.worker, execution.epoch), None))

    assert exit_code(forked(run_until_it_gives_back, tmp_path / "err")) == 1
    said = (tmp_path / "err").read_text()
    assert f"execution 1 was given back: {REASON}; `agentmd resume 1` goes on" in said
    assert (the_execution(world).status, the_execution(world).attempts) == (Status.QUEUED, 0)
    script(world, QUICK)
    assert world.cli("resume", "1").code == 0

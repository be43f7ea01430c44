"""Async tools that block: every limit ends them in time, and nothing else of their process waits for them."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import CallOutcome, Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.chatting import say
from tests.support.server import Server, run
from tests.support.waiting import until

LIMIT_S = 1
"""`settings.timeout` of the agents."""
END_S = 2.0
"""A call ends at most this long after its limit, and after Ctrl-C."""
HEALTH_S = 1.0
STOP_S = 5.0

WAYS = {
    "sleep": "time.sleep(60)",
    "lock": "lock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "event": "threading.Event().wait()",
    "queue": "queue.Queue().get()",
    "future-of-the-loop": "asyncio.run_coroutine_threadsafe(asyncio.sleep(0), asyncio.get_running_loop()).result()",
    "thread": "thread = threading.Thread(target=time.sleep, args=(60,), daemon=True)\nthread.start()\nthread.join()",
    "subprocess": 'subprocess.run(["sleep", "60"], start_new_session=True)  # not ended by the Ctrl-C of its terminal',
    "reading": "os.read(os.pipe()[0], 1)",
    "http": "connection = http.client.HTTPConnection('127.0.0.1', int(os.environ['SILENT_PORT']))\n"
    "connection.request('GET', '/')\nconnection.getresponse()",
    "computing": "while True:\n    pass",
}
"""Ways to block an event loop."""

TOOLS = '''
import asyncio, http.client, os, queue, subprocess, threading, time
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
async def block() -> str:
    """Blocks its event loop."""
    (context().workspace / "begun").touch()
    {way}
    return "not blocked"
'''
QUICK = '''
import asyncio
from langchain_core.tools import tool

@tool
async def quick() -> str:
    """Is done soon."""
    await asyncio.sleep(0.01)
    return "quick"
'''


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server on the loopback that takes connections and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        monkeypatch.setenv("SILENT_PORT", str(listening.getsockname()[1]))
        yield


class Blocked:
    """A workspace with an agent whose tool blocks, one that has a limit too, and a quick neighbour."""

    def __init__(self, folder: AgentFolder, way: str) -> None:
        self.folder = folder
        folder.tools("blocking", TOOLS.format(way=WAYS[way].replace("\n", "\n    ")))
        folder.tools("quick", QUICK)
        turns = [{"calls": [call("block")]}, {"text": "Done."}]
        folder.agent("blocker", turns, "tools: [blocking]")
        folder.agent("limited", turns, f"tools: [blocking]\nsettings: {{timeout: {LIMIT_S}}}")
        folder.agent("neighbour", [{"calls": [call("quick")]}, {"text": "Done."}], "tools: [quick]")

    @property
    def begun(self) -> Path:
        return self.folder.path / "begun"

    def check_limit_held(self) -> None:
        execution = self.folder.execution()
        assert execution.status is Status.TIMEOUT, execution
        assert execution.finished_at is not None
        assert execution.finished_at - self.begun.stat().st_mtime < LIMIT_S + END_S
        self.check_unknown(execution)

    def check_unknown(self, execution: Execution) -> None:
        with self.folder.store() as store:
            (found,) = store.calls(execution.id)
        assert found.outcome is CallOutcome.UNKNOWN
        assert "may have run" in (found.result or "")


def limit_in_a_run(blocked: Blocked) -> None:
    with blocked.folder.terminal("run", "limited", env={"SILENT_PORT": os.environ["SILENT_PORT"]}) as terminal:
        until(blocked.begun.exists)
        assert terminal.exit_code(LIMIT_S + END_S + 1) == 5
    blocked.check_limit_held()


def ctrl_c_in_a_run(blocked: Blocked) -> None:
    with blocked.folder.terminal("run", "blocker", env={"SILENT_PORT": os.environ["SILENT_PORT"]}) as terminal:
        until(blocked.begun.exists)
        started = time.monotonic()
        terminal.send("\x03")
        assert terminal.exit_code() == 130
        assert time.monotonic() - started < END_S
    assert blocked.folder.execution().status is Status.ABORTED
    blocked.check_unknown(blocked.folder.execution())


def limit_and_ctrl_c_in_a_chat(blocked: Blocked) -> None:
    """The turn ends, and the chat takes the next message, which is cancelled."""
    with blocked.folder.terminal("chat", "limited", env={"SILENT_PORT": os.environ["SILENT_PORT"]}) as terminal:
        say(terminal, "Hello")
        terminal.expect("timeout: settings.timeout", LIMIT_S + END_S + 1)
        blocked.check_limit_held()
        blocked.begun.unlink()
        say(terminal, "Again")
        until(blocked.begun.exists)
        started = time.monotonic()
        terminal.send("\x03")
        terminal.expect("aborted: cancelled by ")
        assert time.monotonic() - started < END_S
        say(terminal, "/exit")
        assert terminal.exit_code() == 0


def limit_in_a_server(blocked: Blocked) -> None:
    """Beside it a neighbour works as ever, and is charged for its own work only."""
    with Server(blocked.folder.path) as server:
        client = server.client
        number = run(client, agent="limited")
        until(blocked.begun.exists)
        neighbour = run(client, agent="neighbour")
        while (status := client.get(f"/executions/{number}").body["status"]) == "running":
            asked = time.monotonic()
            assert client.get("/health").status == 200
            assert time.monotonic() - asked < HEALTH_S
            time.sleep(0.02)  # so that those who ask do not take the processor from who works
        assert status == "timeout"
        until(lambda: client.get(f"/executions/{neighbour}").body["status"] == "success")
        assert server.stop().code == 0
    blocked.check_limit_held()
    beside = blocked.folder.execution(neighbour)
    assert beside.finished_at is not None
    assert beside.work_ms <= (beside.finished_at - beside.created_at) * 1000 + 50
    assert beside.work_ms < 1000 * (LIMIT_S + END_S)


def stop_of_a_server(blocked: Blocked) -> None:
    with Server(blocked.folder.path) as server:
        run(server.client, agent="blocker")
        until(blocked.begun.exists)
        started = time.monotonic()
        ended = server.stop(signal.SIGTERM)
        assert time.monotonic() - started < STOP_S
        assert ended.code == 0
    with blocked.folder.store() as store:
        assert store.execution(ExecutionId(1)).status is Status.QUEUED


PLACES = {
    "limit in a run": limit_in_a_run,
    "Ctrl-C in a run": ctrl_c_in_a_run,
    "limit and Ctrl-C in a chat": limit_and_ctrl_c_in_a_chat,
    "limit in a server": limit_in_a_server,
    "stop of a server": stop_of_a_server,
}
ORDINARY = list(zip(("future-of-the-loop", "sleep", "reading", "http", "lock"), PLACES, strict=True))


@pytest.mark.parametrize(("way", "place"), ORDINARY)
@pytest.mark.usefixtures("silent")
def test_a_tool_that_blocks(folder: AgentFolder, way: str, place: str) -> None:
    PLACES[place](Blocked(folder, way))


@pytest.mark.stress
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("silent")
def test_every_way_to_block_in_every_place(folder: AgentFolder, way: str, place: str) -> None:
    PLACES[place](Blocked(folder, way))

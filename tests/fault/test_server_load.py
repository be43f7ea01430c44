"""Many at once: processes that write one workspace beside a server, and executions that wait by the thousand."""

from __future__ import annotations

import collections
import functools
import json
import re
import signal
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import EventType, Status
from tests.support.forks import in_processes
from tests.support.processes import Cli
from tests.support.scenes import parked
from tests.support.server import SERVED_SCRIPT, Server, respond, run, wait_for
from tests.support.waiting import until
from tests.support.world import World

pytestmark = pytest.mark.stress  # slow, and about what seldom changes

_TOLD = (EventType.SYSTEM, EventType.WAITING, EventType.RESUMED, EventType.COMPLETE)


@pytest.fixture
def busy(world: World) -> World:
    """A workspace whose agent may run many times at once, and asks once each time."""
    agent = world.workspace / "agents/worker.md"
    agent.write_text(agent.read_text().replace("tools: [", "on_pending: parallel\ntools: ["))
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(SERVED_SCRIPT)
    return world


def _commands(workspace: Path, end: float) -> None:
    """Runs and answers with the command line."""
    cli = Cli(workspace)
    while time.monotonic() < end:
        started = cli("run", "worker", "--json")
        assert started.code == 3, started
        execution = json.loads(started.out.splitlines()[0])["execution_id"]
        answered = cli("respond", str(execution), "--yes")
        assert answered.code == 0, answered


def _requests(server: Server, end: float) -> None:
    """Runs and answers over HTTP."""
    while time.monotonic() < end:
        executions = [run(server.client) for _ in range(5)]
        for execution in executions:
            wait_for(server.client, execution, "waiting")
            assert respond(server.client, execution, {"approved": True}).status == 200


def _listen(server: Server, file: Path) -> None:
    """Keeps the ids of all that `/events/stream` tells, until the server stops."""
    ids = []
    with server.client.stream("/events/stream") as events:
        for event in events:
            ids += [event.id] if event.id is not None else []
            if event.event == "heartbeat":
                file.touch()
    file.write_text(json.dumps(ids))


def _check_load(world: World, seconds: float) -> None:
    heard = world.workspace / "heard"
    with Server(world.workspace) as server:
        end = time.monotonic() + seconds
        work: list[Callable[[], None]] = [functools.partial(_commands, world.workspace, end)] * 2
        work += [functools.partial(_requests, server, end), functools.partial(_stop_after_all, server, end)]
        assert in_processes(*work, functools.partial(_listen, server, heard)) == [0] * 5
        assert server.process.wait().code == 0
    store = world.store()
    try:
        executions = store.executions()
        assert {execution.status for execution in executions} == {Status.SUCCESS}
        for execution in executions:
            kinds = collections.Counter(event.type for event in store.events(execution.id))
            assert kinds[EventType.COMPLETE] == kinds[EventType.RESUMED] == kinds[EventType.WAITING] == 1
            assert kinds[EventType.AI] == 2
        told = [event.seq for event in store.all_events(_TOLD)]
    finally:
        store.close()
    assert len(executions) > 3
    assert world.effects() == {"A": len(executions)}
    first = json.loads(heard.read_text())
    assert first == told[told.index(first[0]) :]
    assert not re.search("locked|Traceback", (world.workspace / ".agentmd/agentmd.log").read_text())


def _stop_after_all(server: Server, end: float) -> None:
    """Stops the server when nobody begins anything any more, and all that was begun has ended."""
    until(lambda: time.monotonic() > end and not _at_work(server), patience=90)
    server.process.kill(signal.SIGTERM)


def _at_work(server: Server) -> bool:
    """Whether something goes on, or was begun a moment ago."""
    newest = server.client.get("/executions?limit=3").body
    info = server.client.get("/info").body
    ends = [execution["finished_at"] for execution in newest]
    recent = datetime.now(UTC) - timedelta(seconds=1)
    return (
        bool(info["active_executions"] or info["waiting_executions"])
        or None in ends
        or max(datetime.fromisoformat(end) for end in ends) > recent
    )


def test_two_command_lines_and_a_server_for_a_moment(busy: World) -> None:
    _check_load(busy, 3)


@pytest.mark.stress
def test_two_command_lines_and_a_server_for_a_minute(busy: World) -> None:
    _check_load(busy, 60)


def _memory_kb(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0])


def _check_waiting(tmp_path: Path, count: int) -> None:
    empty, full = World(tmp_path / "empty"), World(tmp_path / "full")
    assert full.cli("pending").code == empty.cli("pending").code == 0
    for world in (empty, full):
        assert world.cli("run", "worker").code == 3
    store = full.store()
    spec = store.spec(ExecutionId(1))
    for number in range(count):
        parked(store, agent="worker", session_id=str(number), spec=spec)
    before = store.executions()
    store.close()
    with Server(empty.workspace) as other, Server(full.workspace) as server:
        page = server.client.get("/pending?limit=50").body
        assert len(page) == 50
        assert len(other.client.get("/pending?limit=50").body) == 3
        last = server.client.get(f"/pending?limit=50&offset={count - 10}").body
        assert len(last) == 13
        assert server.client.get("/info").body["waiting_executions"] == count + 1
        assert _memory_kb(server) - _memory_kb(other) < 10_000
        assert server.stop().code == 0
    store = full.store()
    assert store.executions() == before
    store.close()


def test_a_hundred_waiting_executions(tmp_path: Path) -> None:
    _check_waiting(tmp_path, 100)


@pytest.mark.stress
def test_a_thousand_waiting_executions(tmp_path: Path) -> None:
    _check_waiting(tmp_path, 1000)

"""Sessions whose server is killed, sessions by the hundred, and clients by the hundred."""

from __future__ import annotations

import http.client
import json
import os
import random
import selectors
import socket
import time
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from agent_md.stores.workers import LockWorkers
from tests.support.scenes import begin, journal_of, parked, succeed
from tests.support.server import Server
from tests.support.sessions import WORKER, Talk, talking_world
from tests.support.waiting import until
from tests.support.world import MAY_HAVE_RUN, World

_LOST = (OSError, http.client.HTTPException)


def test_the_server_is_killed_between_two_answers(tmp_path: Path) -> None:
    world = talking_world(tmp_path / "ws")
    with Server(world.workspace) as first:
        talk = Talk.begin(first)
        one, two = talk.told("two")["interrupts"]
        assert talk.resume(one, {"approved": True}).body["status"] == "interrupted"
        until(lambda: "did A" in talk.texts())  # a call that is cut off would be unknown
        first.kill()
    with Server(world.workspace) as second:
        talk = talk.at(second)
        assert [i["interrupt_id"] for i in talk.get().body["interrupts"]] == [two["interrupt_id"]]
        assert talk.say("meanwhile").status == 409
        assert talk.resume(one, {"approved": True}).body["status"] == "interrupted"
        assert talk.resume(one, {"approved": False}).status == 409
        assert talk.resume("nonsense", {"approved": True}).status == 404
        assert talk.resume(two, {"approved": True}).body["status"] == "running"
        assert talk.rest()["response"]["content"] == "Both were decided."
        assert talk.texts() == ["two", "Both.", "did A", "did B", "Both were decided."]
        assert world.effects() == {"A": 1, "B": 1}
        assert talk.told("hello")["status"] == "idle"


class _Client:
    """Talks to whatever server the workspace has; when it died, starts the next one and repeats the request."""

    def __init__(self, world: World, kill_before_write: int | None) -> None:
        self._world = world
        self.server = Server(world.workspace, kill_before_write=kill_before_write)

    def __call__(self, method: str, path: str, body: Any = None, *, expected: Collection[int]) -> Any:
        while True:
            try:
                answer = self.server.client.request(method, path, body)
            except (*_LOST, AttributeError):  # without an attribute `client`: it died before it was ready
                until(lambda: self.server.process.ended)
                self.server = Server(self._world.workspace)
                continue
            assert answer.status in expected, answer
            return answer.body


def _story(folder: Path, kill_before_write: int | None = None) -> int:
    """A conversation from its first request to its deletion; gives the writes of the server, if that was not killed."""
    world = talking_world(folder, "server: {allow_custom_ids: true}\n")
    client = _Client(world, kill_before_write)
    path = f"{WORKER}/sessions/{uuid.uuid4()}"
    client("PUT", path, expected={201, 409})
    client("POST", f"{path}/messages", {"content": "two"}, expected={202, 409})
    while (shown := client("GET", f"{path}?wait=true&timeout=20", expected={200}))["status"] != "idle":
        assert shown["status"] in ("running", "interrupted")
        for asked in shown["interrupts"] or []:
            answer = {"interrupt_id": asked["interrupt_id"], "value": {"approved": True}}
            client("POST", f"{path}/resume", answer, expected={200})
    assert shown["response"]["content"] == "Both were decided."
    messages = client("GET", f"{path}/messages", expected={200})
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    for key, result in zip("AB", messages[2:4], strict=True):
        if result["content"] == f"did {key}":
            assert world.effects()[key] == 1
        else:  # killed after it was started: that is told, and it is not started again
            assert MAY_HAVE_RUN in result["content"]
            assert world.effects()[key] <= 1
    client("DELETE", path, expected={204, 404})
    client("GET", path, expected={404})
    ended = client.server.stop()
    assert ended.code == 0 or (ended.killed and kill_before_write is not None)  # its last writes are at its end
    return client.server.writes()


def _check_killed_at(folder: Path, points: range) -> None:
    for point in points:
        try:
            _story(folder / str(point), point)
        except AssertionError as error:
            raise AssertionError(f"the server was killed before write {point}: {error}") from error


def test_killed_before_some_writes(tmp_path: Path) -> None:
    writes = _story(tmp_path / "whole")
    assert writes > 60
    _check_killed_at(tmp_path, range(random.randrange(1, 141), writes, 140))


@pytest.mark.stress
def test_killed_before_every_write(tmp_path: Path) -> None:
    writes = _story(tmp_path / "whole")
    assert writes > 60
    _check_killed_at(tmp_path, range(1, writes))


# Many


def _check_beside(tmp_path: Path, count: int) -> None:
    world = talking_world(tmp_path / "ws", "server: {max_concurrent: 4}\n")
    (world.workspace / ".agentmd").mkdir(mode=0o700, exist_ok=True)
    store = world.store()
    for number in range(count):
        parked(store, agent="worker", session_id=str(number))
    store.close()
    with Server(world.workspace) as server:
        assert server.client.get("/health").body["waiting"] == count
        talk = Talk.begin(server)
        assert talk.told("hello")["status"] == "idle"
        assert len(server.client.get("/sessions").body) == count + 1
        assert Talk(server.client, str(count - 1)).get().body["status"] == "interrupted"
        assert server.client.get("/health").body["waiting"] == count


def test_a_new_session_beside_a_hundred_that_wait(tmp_path: Path) -> None:
    _check_beside(tmp_path, 100)


@pytest.mark.stress
def test_a_new_session_beside_a_thousand_that_wait(tmp_path: Path) -> None:
    _check_beside(tmp_path, 1000)


class _Pollers:
    """Clients that wait for sessions, on one connection each."""

    def __init__(self, server: Server) -> None:
        self._path = str(server.client.socket_path)
        self._selector = selectors.DefaultSelector()
        self.open = 0

    def poll(self, session_id: str) -> None:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(self._path)
        path = f"{WORKER}/sessions/{session_id}?wait=true"
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        self._selector.register(client, selectors.EVENT_READ, bytearray())
        self.open += 1

    def answers(self, patience: float) -> list[str]:
        """What they were answered, all of them."""
        found, deadline = [], time.monotonic() + patience
        while self.open:
            assert time.monotonic() < deadline, f"{self.open} were not answered"
            for key, _ in self._selector.select(0.1):
                client: Any = key.fileobj
                if data := client.recv(65536):
                    key.data.extend(data)
                    continue
                self._selector.unregister(client)
                client.close()
                self.open -= 1
                found.append(json.loads(key.data.partition(b"\r\n\r\n")[2])["status"])
        return found


def _cpu_s(server: Server) -> float:
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _check_polled(tmp_path: Path, sessions: int, each: int) -> None:
    """So many clients wait for sessions whose turns this process drives."""
    world = talking_world(tmp_path / "ws")
    with Server(world.workspace) as server:
        store, worker = world.store(), LockWorkers(world.workspace / ".agentmd/workers").acquire()
        turns = [begin(store, agent="worker", session_id=str(n), worker=worker.id) for n in range(sessions)]
        pollers = _Pollers(server)
        for number in range(sessions):
            for _ in range(each):
                pollers.poll(str(number))
        until(lambda: server.client.get("/info").body["active_streams"] == sessions * each)
        before, begun = _cpu_s(server), time.monotonic()
        until(lambda: time.monotonic() > begun + 1)
        assert _cpu_s(server) - before < 0.5  # looking for them again and again takes all of a second, waiting nothing
        for turn in turns:
            succeed(journal_of(store, turn))
        assert pollers.answers(patience=10) == ["idle"] * (sessions * each)
        assert server.client.get("/info").body["active_streams"] == 0
        worker.close()
        store.close()


def test_two_hundred_clients_wait(tmp_path: Path) -> None:
    _check_polled(tmp_path, 20, 10)


@pytest.mark.stress
@pytest.mark.parametrize(("sessions", "each"), [(500, 1), (1, 500)])
def test_five_hundred_clients_wait(tmp_path: Path, sessions: int, each: int) -> None:
    _check_polled(tmp_path, sessions, each)

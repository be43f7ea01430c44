"""kill -9 of the server right before every single write, and a client that goes on with the next server."""

from __future__ import annotations

import http.client
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import Answer, Server
from tests.support.waiting import until
from tests.support.world import World, http_answer

_LOST = (OSError, http.client.HTTPException)


class _Client:
    """Talks to whatever server the workspace has; when it died, starts the next one and repeats the request."""

    def __init__(self, world: World, kill_before_write: int | None) -> None:
        self._world = world
        self.server = Server(world.workspace, kill_before_write=kill_before_write)
        self.deaths = 0

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        while True:
            try:
                return self.server.client.request(method, path, body, headers)
            except (*_LOST, AttributeError):  # without an attribute `client`: it died before it was ready
                until(lambda: self.server.process.ended)
                self.deaths += 1
                self.server = Server(self._world.workspace)


def _story(world: World, kill_before_write: int | None = None) -> int:
    """One execution from its start to its end; gives the writes of the server, if that was not killed."""
    client = _Client(world, kill_before_write)
    started = client("POST", "/agents/worker/run", **{"Idempotency-Key": "once"})
    assert started.status == 200, started
    path = f"/executions/{started.body['execution_id']}"
    until(lambda: _step(client, path), patience=180)
    log = [entry["id"] for entry in client("GET", f"{path}/messages").body]
    with client.server.client.stream(f"{path}/stream") as events:
        assert [event.id for event in events] == log
    ended = client.server.stop()
    assert ended.code == 0 or (ended.killed and kill_before_write is not None)  # its last writes are at its end
    deaths = client.deaths + ended.killed
    assert deaths == (kill_before_write is not None) or client.server.writes() < (kill_before_write or 0)
    world.check()
    return client.server.writes()


def _step(client: Callable[..., Answer], path: str) -> bool:
    """Answers the oldest question; says whether the execution has ended."""
    execution = client("GET", path).body
    if execution["status"] == "waiting":
        request = execution["pending"][0]
        body = {"request_id": request["request_id"], "response": http_answer(request)}
        answered = client("POST", f"{path}/respond", body)
        assert answered.status == 200, answered
    return execution["finished_at"] is not None


def _check_killed_at(tmp_path: Path, points: range) -> None:
    for point in points:
        try:
            _story(World(tmp_path / str(point)), point)
        except AssertionError as error:
            raise AssertionError(f"the server was killed before write {point}: {error}") from error


def test_killed_before_some_writes(tmp_path: Path) -> None:
    writes = _story(World(tmp_path / "whole"))
    assert writes > 60
    _check_killed_at(tmp_path, range(random.randrange(1, 201), writes, 200))


@pytest.mark.stress
def test_killed_before_every_write(tmp_path: Path) -> None:
    writes = _story(World(tmp_path / "whole"))
    assert writes > 60
    _check_killed_at(tmp_path, range(1, writes))

"""kill -9 of the server right before single writes while a webhook delivers, and a sender that tries again."""

from __future__ import annotations

import http.client
import random
from itertools import count
from pathlib import Path

import pytest

from agent_md.executions.firings import FiringState
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder
from tests.support.hooks import SECRET, github
from tests.support.server import Answer, Server
from tests.support.waiting import until

BODY = b'{"action": "opened"}'
ENV = {"HOOK_SECRET": SECRET}
_LOST = (OSError, http.client.HTTPException, AttributeError)
"""What a server that died answers; without an attribute `client` it died before it was ready."""


class _Story:
    """A delivery that is sent until it is taken, and whose execution ends."""

    def __init__(self, path: Path, kill_before_write: int | None = None) -> None:
        self.folder = AgentFolder(path)
        self.folder.agent("keeper", [{"text": "Done."}], 'trigger: {type: webhook, secret: "${HOOK_SECRET}"}')
        self.server = Server(path, env=ENV, kill_before_write=kill_before_write)
        self.deaths = 0
        number = self._deliver().body["execution_id"]
        until(lambda: self.server.process.ended or self.folder.execution(number).status is Status.SUCCESS)
        if self.server.process.ended:
            self._next_server()
            self.folder.until_status(Status.SUCCESS, number)
        self.server.stop()
        with self.folder.store() as store:
            assert [execution.id for execution in store.executions()] == [number]
            assert [(f.state, f.execution_id) for f in store.firings.listed()] == [(FiringState.STARTED, number)]

    def _deliver(self) -> Answer:
        for attempt in count(1):
            headers = github(BODY, f"attempt {attempt}")
            try:
                answer = self.server.client.request("POST", "/agents/keeper/hooks", headers=headers, raw=BODY)
            except _LOST:
                self._next_server()
                self.deaths += 1
            else:
                assert answer.status == 202, answer
                return answer
        raise AssertionError

    def _next_server(self) -> None:
        until(lambda: self.server.process.ended)
        self.server = Server(self.folder.path, env=ENV)


def _killed_at(tmp_path: Path, point: int) -> _Story:
    try:
        return _Story(tmp_path / str(point), point)
    except AssertionError as error:
        raise AssertionError(f"the server was killed before write {point}: {error}") from error


def _writes_of_idle_server(tmp_path: Path) -> int:
    AgentFolder(tmp_path / "idle")
    server = Server(tmp_path / "idle", env=ENV)
    server.stop()
    return server.writes()


def test_killed_before_one_write_in_four_until_it_answers(tmp_path: Path) -> None:
    first = _writes_of_idle_server(tmp_path) - random.randrange(4)
    deaths = 0
    for point in count(first, 4):
        if not _killed_at(tmp_path, point).deaths:
            break
        deaths += 1
    assert deaths >= 2


@pytest.mark.stress
def test_killed_before_every_write(tmp_path: Path) -> None:
    whole = _Story(tmp_path / "whole")
    for point in range(1, whole.server.writes()):
        _killed_at(tmp_path, point)

"""TCP always has a key."""

from __future__ import annotations

import os
import resource
import signal
import socket
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.support.server import Server, respond, run, wait_for
from tests.support.world import World


class TestTcp:
    def test_always_has_a_key(self, asking: World) -> None:
        with Server(asking.workspace, "--port", "0") as server:
            url = server.address["url"]
            key = Path(server.address["key_file"]).read_text().strip()
            assert os.stat(server.address["key_file"]).st_mode & 0o777 == 0o600
            assert _status(f"{url}/health") == 200
            assert _status(f"{url}/openapi.json") == 200
            assert _status(f"{url}/agents/worker/health") == 200
            assert _status(f"{url}/agents/nobody/health") == 404
            for near in ("agents/worker", "sessions/health", "agents/a/sessions/health", "agents/worker/health/x"):
                assert _status(f"{url}/{near}") == 401
            assert _status(f"{url}/agents") == 401
            assert _status(f"{url}/agents", **{"X-API-Key": "wrong"}) == 401
            assert _status(f"{url}/agents", **{"X-API-Key": key}) == 200
            assert _status(f"{url}/agents", Authorization=f"Bearer {key}") == 200
            assert _status(f"{url}/executions/1/stream", Authorization="Bearer ") == 401
            assert server.client.get("/agents").status == 200

    def test_a_given_key(self, asking: World) -> None:
        with Server(asking.workspace, "--host", "127.0.0.1", env={"AGENTMD_API_KEY": "k"}) as server:
            assert server.address["key_file"] is None
            assert _status(f"{server.address['url']}/info", **{"X-API-Key": "k"}) == 200


def _status(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_a_key_that_cannot_be_read_opens_nothing(asking: World) -> None:
    state = asking.workspace / ".agentmd"
    state.mkdir(mode=0o700)
    (state / "api_key").write_bytes(b"\xff\xfe")
    refused = asking.cli("start", "--port", "0")
    assert refused.code == 2, refused
    assert "remove it, and a new one is made" in refused.err
    assert not (state / "server.json").exists()


@pytest.mark.parametrize("count", [300, pytest.param(2000, marks=pytest.mark.stress)])
def test_half_sent_requests_do_not_shut_out_the_socket(asking: World, count: int) -> None:
    """So many, without a key, where the server may have 256 files open."""

    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    with Server(asking.workspace, "--port", "0", prepare=few_files) as server:
        place = urllib.parse.urlsplit(server.address["url"])
        opened = []
        try:
            for _ in range(count):
                half = socket.create_connection((place.hostname, place.port), timeout=20)
                opened.append(half)
                half.sendall(b"GET /agents HTTP/1.1\r\nHo")
            number = run(server.client)
            wait_for(server.client, number, "waiting")
            assert _status(f"{server.address['url']}/health") == 200
        finally:
            for half in opened:
                half.close()


def test_a_forked_child_does_not_hold_the_address(asking: World) -> None:
    (asking.workspace / "agents/_config/tools/effects.py").write_text(FORKING)
    with Server(asking.workspace, "--port", "0") as first:
        port = first.address["url"].rpartition(":")[2]
        execution = run(first.client)
        detail = wait_for(first.client, execution, "waiting")
        respond(first.client, execution, {"approved": True}, detail["pending"][0]["request_id"])
        wait_for(first.client, execution, "success")
        first.kill()
    child = int((asking.workspace / "child").read_text())
    try:
        os.kill(child, 0)
        with Server(asking.workspace, "--port", port) as second:
            assert second.client.get("/health").status == 200
    finally:
        os.kill(child, signal.SIGKILL)


FORKING = """
import os, time
from pathlib import Path
from langchain_core.tools import tool

@tool
def danger(key: str) -> str:
    "Leaves a child behind."
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    Path("child").write_text(str(child))
    return "forked"
"""

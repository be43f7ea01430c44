"""Webhook triggers of a real server, by TCP and by its socket."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from agent_md.api.guard import BODY_LIMIT
from agent_md.executions.states import TriggerKind
from tests.support.agent_folder import AgentFolder, call
from tests.support.hooks import SECRET, github, standard
from tests.support.server import Server, respond, wait_for

BODY = b'{"action": "opened"}'
ENV = {"HOOK_SECRET": SECRET, "AGENTMD_API_KEY": "key"}
WEBHOOK = 'trigger: {type: webhook, secret: "${HOOK_SECRET}"}'


@pytest.fixture(scope="module")
def hooked(tmp_path_factory: pytest.TempPathFactory) -> AgentFolder:
    folder = AgentFolder(tmp_path_factory.mktemp("hooks") / "ws")
    folder.agent("keeper", [{"text": "Done."}], WEBHOOK)
    folder.agent("busy bee", [{"calls": [call("file_write", path="out.txt", content="x")]}, {"text": "Done."}], WEBHOOK)
    return folder


@pytest.fixture(scope="module")
def server(hooked: AgentFolder) -> Iterator[Server]:
    with Server(hooked.path, "--port", "0", env=ENV) as running:
        yield running


def by_tcp(server: Server, headers: Mapping[str, str], body: bytes | Iterable[bytes] = BODY) -> tuple[int, bytes]:
    """The status and the body of the answer; a body in pieces is sent chunked."""
    with closing(http.client.HTTPConnection(urlsplit(server.address["url"]).netloc, timeout=20)) as connection:
        connection.request("POST", "/agents/keeper/hooks", body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()


def test_a_delivery_by_tcp_needs_no_key_and_starts_one_execution(server: Server, hooked: AgentFolder) -> None:
    status, answer = by_tcp(server, standard(BODY, "first"))
    assert status == 202
    execution = json.loads(answer)["execution_id"]
    assert wait_for(server.client, execution, "success")["trigger"] == "webhook"
    assert by_tcp(server, standard(BODY, "first", age=60)) == (status, answer)
    by_socket = server.client.request("POST", "/agents/keeper/hooks", headers=standard(BODY, "first"), raw=BODY)
    assert (by_socket.status, by_socket.body) == (202, {"execution_id": execution})
    entries = server.client.get("/firings?agent=keeper").body
    assert [entry["state"] for entry in entries if entry["execution_id"] == execution] == ["started"]
    runs = server.client.get("/agents/keeper/runs").body
    assert [run["id"] for run in runs].count(execution) == 1
    for refused in ({}, {"X-API-Key": "key"}, github(BODY, secret="x")):
        assert by_tcp(server, refused)[0] == 401
    assert server.client.get("/agents/keeper/runs").body == runs


def test_bodies_of_every_length_and_form(server: Server) -> None:
    whole = bytes(BODY_LIMIT)
    assert by_tcp(server, github(whole), whole)[0] == 202
    assert by_tcp(server, github(whole + b"x"), whole + b"x")[0] == 413
    chunked = github(b"chunked")
    status, answer = by_tcp(server, chunked, iter([b"chun", b"ked"]))
    assert status == 202
    assert by_tcp(server, chunked, b"chunked") == (status, answer)
    assert by_tcp(server, github(whole), iter([whole, b"x"]))[0] == 413
    status, answer = by_tcp(server, github(b""), b"")
    assert status == 202
    text = wait_for(server.client, json.loads(answer)["execution_id"], "success")
    said = server.client.get(f"/executions/{text['id']}/messages").body
    assert any("begin: GitHub, 0 bytes\n" in entry["message"] for entry in said)


def test_a_question_holds_up_the_next_delivery_which_may_come_again(server: Server, hooked: AgentFolder) -> None:
    path = "/agents/busy%20bee/hooks"

    def deliver(body: bytes) -> tuple[int, dict[str, object]]:
        answer = server.client.request("POST", path, headers=github(body, body.decode()), raw=body)
        return answer.status, answer.body

    status, first = deliver(b"one")
    assert status == 202
    number = first["execution_id"]
    assert isinstance(number, int)
    wait_for(server.client, number, "waiting")
    status, refused = deliver(b"two")
    reason = f"waiting: execution {number} waits for a human"
    assert (status, refused) == (409, {"detail": f"the delivery started nothing: {reason}"})
    shown = " ".join(hooked.cli("schedule", "busy bee", "--skipped").out.split())
    assert f"busy bee webhook {reason}" in shown
    assert deliver(b"one") == (202, first)
    respond(server.client, number, {"approved": True})
    wait_for(server.client, number, "success")
    status, second = deliver(b"two")
    assert (status, second != first) == (202, True)


def test_it_is_the_same_delivery_after_a_restart(folder: AgentFolder) -> None:
    folder.agent("keeper", [{"text": "Done."}], WEBHOOK)
    with Server(folder.path, "--port", "0", env=ENV) as server:
        first = [by_tcp(server, standard(BODY, "1")), by_tcp(server, github(b"x", "2"), b"x")]
        for execution in (1, 2):
            wait_for(server.client, execution, "success")
        server.kill()
    assert [status for status, _ in first] == [202, 202]
    with Server(folder.path, "--port", "0", env=ENV) as server:
        assert [by_tcp(server, standard(BODY, "1")), by_tcp(server, github(b"x", "3"), b"x")] == first
    with folder.store() as store:
        assert [execution.trigger for execution in store.executions()] == [TriggerKind.WEBHOOK] * 2


def test_where_it_is_shown(folder: AgentFolder) -> None:
    folder.agent("my keeper", [{"text": "Done."}], WEBHOOK)
    path = "/agents/my%20keeper/hooks"
    missing = "the variable HOOK_SECRET of `trigger.secret` is not set"
    validated = folder.cli("validate")
    assert (validated.code, missing in validated.out) == (1, True)
    assert folder.cli("validate", env=ENV).code == 0
    explained = " ".join(folder.cli("explain", "my keeper").out.split())
    assert f"Trigger webhook at POST {path}" in explained
    assert f"note: {missing}" in explained
    assert json.loads(folder.cli("explain", "my keeper", "--json").out)["trigger_hook"] == path
    listed = folder.cli("list")
    assert "webhook" in listed.out
    assert "the trigger of my keeper starts nothing until one does" in listed.err
    with Server(folder.path) as server:
        assert f"my keeper starts by itself: webhook at POST {path}; {missing}" in folder.cli("status").out
        assert server.client.request("POST", path, raw=b"").status == 503
        agent = server.client.get("/agents/my keeper".replace(" ", "%20")).body
        assert (agent["trigger_type"], agent["trigger_hook"], agent["next_run"]) == ("webhook", path, None)
        nothing = {"paused_by": None, "waiting": [], "last_skipped": None}
        assert server.client.get("/scheduler").body["jobs"] == [
            {"agent_name": "my keeper", "trigger_type": "webhook", "next_run": None} | nothing
        ]
    assert SECRET not in (folder.path / ".agentmd/agentmd.log").read_text()

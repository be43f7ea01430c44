"""What clients of other servers of these interfaces send and expect, with a real server process."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from agent_md.executions.model import Status
from tests.support.server import Server, respond, run, wait_for
from tests.support.sessions import WORKER, Talk, talking_world
from tests.support.world import World

CONFIG = "server: {max_concurrent: 1, trusted_roles: [user, assistant, system, tool]}\n"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = talking_world(tmp_path_factory.mktemp("foreign") / "ws", CONFIG)
    agents = world.workspace / "agents"
    worker = (agents / "worker.md").read_text()
    (agents / "mounted.md").write_text(
        worker.replace("name: worker\n", "name: mounted\npaths: {out: {path: output, mode: ro}, data: ./data}\n", 1)
    )
    (agents / "cafe.md").write_text(worker.replace("name: worker\n", "name: Café\n", 1))
    (world.workspace / "output").mkdir()
    (world.workspace / "data").mkdir()
    return world


@pytest.fixture(scope="module")
def server(world: World) -> Iterator[Server]:
    with Server(world.workspace) as running:
        yield running


class TestShapes:
    def test_the_paths_of_an_agent_are_texts(self, server: Server, world: World) -> None:
        agent = server.client.get("/agents/mounted").body
        assert set(agent["paths"]) == {"out", "data"}
        assert all(isinstance(path, str) for path in agent["paths"].values())
        assert agent["path_details"]["out"] == {"path": agent["paths"]["out"], "description": "", "mode": "ro"}
        assert agent["source_path"] == str(world.workspace / "agents/mounted.md")
        assert agent["source_path"] in [listed["source_path"] for listed in server.client.get("/agents").body]

    def test_what_is_queued_has_a_time_of_start(self, server: Server) -> None:
        slow, queued = Talk.begin(server), Talk.begin(server)
        slow.say("slow")
        slow.until_driven()
        queued.say("hello")
        (waits,) = queued.executions()
        assert (waits["status"], waits["started_at"], waits["duration_ms"]) == ("queued", waits["created_at"], None)
        slow.delete()
        assert queued.rest()["status"] == "idle"
        assert queued.executions()[0]["started_at"] >= waits["created_at"]

    def test_calls_and_results_name_the_tool(self, server: Server) -> None:
        execution = run(server.client, {"message": "one"})
        wait_for(server.client, execution, "waiting")
        respond(server.client, execution, {"approved": True})
        wait_for(server.client, execution, "success")
        log = server.client.get(f"/executions/{execution}/messages").body
        said = {entry["event_type"]: entry["message"] for entry in log}
        assert said["tool_call"] == 'danger → {"key": "A"}'
        assert said["tool_result"] == "danger ← did A"
        with server.client.stream(f"/executions/{execution}/stream") as events:
            streamed = {event.event: event.data["message"] for event in events}
        assert {name: streamed[name] for name in ("tool_call", "tool_result")} == {
            name: said[name] for name in ("tool_call", "tool_result")
        }


class TestFilters:
    def test_other_names_of_statuses(self, server: Server) -> None:
        failed = run(server.client, {"message": "fails at once"})
        wait_for(server.client, failed, "error")
        cancelled = run(server.client, {"message": "one", "session_id": "filters"})
        wait_for(server.client, cancelled, "waiting")
        server.client.request("DELETE", f"/executions/{cancelled}")
        for name, status in (("failed", "error"), ("cancelled", "aborted"), *((str(s), str(s)) for s in Status)):
            found = server.client.get(f"/executions?status={name}")
            assert found.status == 200, found
            assert {execution["status"] for execution in found.body} <= {status}
        assert failed in [execution["id"] for execution in server.client.get("/executions?status=failed").body]
        assert cancelled in [execution["id"] for execution in server.client.get("/executions?status=cancelled").body]

    @pytest.mark.parametrize("name", ["Café", "CAFÉ", "café", unicodedata.normalize("NFD", "café")])
    def test_agents_are_compared_as_everywhere(self, server: Server, name: str) -> None:
        execution = run(server.client, {"message": "hello", "session_id": "names"}, agent=quote("Café"))
        wait_for(server.client, execution, "success")
        assert server.client.get(f"/executions?agent={quote(name)}").body[0]["id"] == execution
        assert server.client.get(f"/agents/{quote(name)}/runs").body[0]["id"] == execution

    def test_an_agent_that_never_ran_has_none(self, server: Server) -> None:
        assert server.client.get("/executions?agent=mounted").body == []
        assert server.client.get("/agents/mounted/runs").body == []
        assert server.client.get("/agents/nobody/runs").status == 404


HOOK = {"url": "https://example.com/hook", "tokn": "x"}
CALL = {"id": "c1", "type": "function", "function": {"name": "plain", "arguments": "{}", "argumets": 1}}


class TestUnknownKeys:
    @pytest.mark.parametrize(
        ("path", "body", "place", "hint"),
        [
            (f"{WORKER}/run", {"mesage": "x"}, ["mesage"], 'did you mean "message"?'),
            (f"{WORKER}/run", {"message": "x", "zzz": 1}, ["zzz"], "the keys are: args, message, session_id"),
            ("/executions/1/respond", {"response": {}, "requestid": "1"}, ["requestid"], 'mean "request_id"?'),
            (f"{WORKER}/sessions", {"sate": []}, ["sate"], 'mean "state"?'),
            (f"{WORKER}/sessions", {"state": [{"contnt": "x"}]}, ["state", 0, "contnt"], 'mean "content"?'),
            ("SESSION/messages", {"content": "x", "webhok": None}, ["webhok"], 'mean "webhook"?'),
            ("SESSION/messages", {"content": "x", "webhook": HOOK}, ["webhook", "tokn"], 'mean "token"?'),
            ("SESSION/resume", {"interrupt_id": "1", "value": 1, "valeu": 2}, ["valeu"], 'mean "value"?'),
            (
                f"{WORKER}/sessions",
                {"state": [{"role": "assistant", "tool_calls": [CALL]}]},
                ["state", 0, "tool_calls", 0, "function", "argumets"],
                'mean "arguments"?',
            ),
        ],
    )
    def test_are_refused_with_the_nearest_name(
        self, server: Server, path: str, body: Any, place: list[Any], hint: str
    ) -> None:
        talk = Talk.begin(server)
        refused = server.client.post(path.replace("SESSION", talk.path), body)
        assert refused.status == 422
        (mistake,) = refused.body["detail"]
        assert (mistake["loc"], mistake["type"]) == (["body", *place], "extra_forbidden")
        assert hint in mistake["msg"]
        assert talk.executions() == []

    def test_null_for_what_a_message_of_another_server_lacks_is_nothing(self, server: Server) -> None:
        lacking = dict.fromkeys(("reasoning", "reasoning_details", "tool_calls", "tool_call_id", "name", "user_params"))
        talk = Talk.begin(server, {"state": [{"role": "user", "content": "before", **lacking}]})
        assert talk.told("hello", role="user", webhook=None, **lacking)["status"] == "idle"
        refused = talk.say("hello", reasoning="because")
        assert (refused.status, refused.body["detail"][0]["loc"]) == (422, ["body", "reasoning"])


def test_who_answers_is_told_from_our_own_names(server: Server) -> None:
    execution = run(server.client, {"message": "one"})
    wait_for(server.client, execution, "waiting")
    for name in ("cli:ann", "timeout", "policy", "api", "Http:ann", " "):
        refused = respond(server.client, execution, {"approved": True}, by=name)
        assert (refused.status, "Nothing was answered" in refused.body["detail"]) == (422, True)
    assert server.client.get(f"/executions/{execution}").body["status"] == "waiting"
    assert respond(server.client, execution, {"approved": False}, by="ann").status == 200
    assert server.client.get(f"/executions/{execution}/requests").body[0]["answered_by"] == "http:ann"
    wait_for(server.client, execution, "success")

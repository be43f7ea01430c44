"""What clients of other servers of these interfaces send and expect, with a real server process."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from agent_md.executions.states import Status
from tests.support.server import Server, respond, run, wait_for
from tests.support.sessions import WORKER, Talk, talking_world
from tests.support.world import World

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30).decode()
CONFIG = "server: {max_concurrent: 1, trusted_roles: [user, assistant, system, tool]}\n"


ASKER = "---\nname: asker\nmodel: {provider: script, name: asker}\n---\nAsk.\n"
ASKING = """
conversations:
  - turns:
      - calls:
          - name: ask_user_question
            args:
              questions:
                - question: Which database?
                  header: Database
                  options: [{label: SQLite, description: One file}, {label: Postgres, description: A server}]
      - {text: Thanks.}
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = talking_world(tmp_path_factory.mktemp("foreign") / "ws", CONFIG)
    agents = world.workspace / "agents"
    worker = (agents / "worker.md").read_text()
    (agents / "mounted.md").write_text(
        worker.replace("name: worker\n", "name: mounted\npaths: {out: {path: output, mode: ro}, data: ./data}\n", 1)
    )
    (agents / "asker.md").write_text(ASKER)
    (agents / "_config/scripts/asker.yaml").write_text(ASKING)
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
            ("/agents/reload", {"agent": "worker"}, ["agent"], "it has none"),
            ("/executions/1/retry", {"message": "x"}, ["message"], "it has none"),
            ("/shutdown", {"force": True}, ["force"], "it has none"),
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


class TestSessions:
    def test_a_question_that_does_not_say_whether_several_are_picked_is_asked(self, server: Server) -> None:
        talk = Talk.begin(server, base="/agents/asker")
        (asked,) = talk.told("hello")["interrupts"]
        assert asked["payload"]["questions"][0]["multiSelect"] is False
        refused = talk.resume(asked, {"answers": {"Which database?": ["SQLite", "Postgres"]}})
        assert refused.status == 422
        assert talk.resume(asked, {"answers": {"Which database?": "SQLite"}}).status == 200
        assert talk.rest()["response"]["content"] == "Thanks."

    def test_an_image_is_given_to_a_model_that_takes_images(self, server: Server, world: World) -> None:
        talk = Talk.begin(server, {"state": [{"content": "Before", "base64_image": PNG}]})
        assert talk.told("hello", base64_image=f"data:image/png;base64,{PNG}")["status"] == "idle"
        assert talk.messages()[:2] == [
            {"role": "user", "content": "Before", "base64_image": PNG},
            {"role": "user", "content": "hello", "base64_image": PNG},
        ]
        (turn,) = talk.executions()
        store = world.store()
        given = store.seed(turn["id"])[-2:]
        store.close()
        assert [message["data"]["content"][1]["base64"] for message in given] == [PNG, PNG]
        log = server.client.get(f"/executions/{turn['id']}/messages").body
        assert next(entry["message"] for entry in log if entry["event_type"] == "human") == "hello\n[image/png]"

    def test_one_that_no_model_would_see_is_refused(self, server: Server, world: World) -> None:
        talk = Talk.begin(server)
        for more in ({"base64_image": "bm8gaW1hZ2U="}, {"role": "system", "base64_image": PNG}):
            assert talk.say("hello", **more).status == 422
        blind = "---\nname: blind\nmodel: {provider: ollama, name: llama3.2}\n---\nTalk.\n"
        (world.workspace / "agents/blind.md").write_text(blind)
        refused = server.client.post("/agents/blind/sessions", {"state": [{"content": "x", "base64_image": PNG}]})
        assert (refused.status, "ollama/llama3.2" in refused.body["detail"]) == (422, True)
        other = Talk.begin(server, base="/agents/blind")
        refused = other.say("hello", base64_image=PNG)
        assert (refused.status, "ollama/llama3.2" in refused.body["detail"]) == (422, True)
        assert (talk.executions(), other.executions()) == ([], [])

    def test_a_system_message_that_is_trusted_begins_a_turn(self, server: Server) -> None:
        talk = Talk.begin(server)
        assert talk.told("The user has left.", role="system")["response"]["content"] == "Hello."
        assert talk.messages()[0] == {"role": "system", "content": "The user has left."}
        assert talk.told("hello")["status"] == "idle"
        assert [message["role"] for message in talk.messages()] == ["system", "assistant", "user", "assistant"]

    @pytest.mark.parametrize("base", [WORKER, ""])
    def test_one_that_asks_names_its_interrupts_and_where_to_answer(self, server: Server, base: str) -> None:
        talk = Talk(server.client, Talk.begin(server).id, base)
        talk.told("two")
        (turn,) = talk.executions()
        busy = talk.say("more")
        assert busy.status == 409
        ids = [interrupt["interrupt_id"] for interrupt in talk.get().body["interrupts"]]
        assert busy.body["interrupts"] == [{"interrupt_id": each, "type": "tool_approval"} for each in ids]
        assert busy.body["waiting"] == [turn["id"]]
        assert f"POST {talk.path}/resume" in busy.body["detail"]
        assert all(f"{each} (tool_approval)" in busy.body["detail"] for each in ids)
        assert "agentmd" not in busy.body["detail"]

    def test_one_that_runs_says_how_to_wait(self, server: Server) -> None:
        talk = Talk.begin(server)
        talk.say("slow")
        busy = talk.say("more")
        assert (busy.status, busy.body["interrupts"], busy.body["waiting"]) == (409, [], [])
        assert f"GET {talk.path}?wait=true" in busy.body["detail"]
        talk.delete()

    def test_a_run_that_is_refused_for_one_that_waits_names_routes(self, server: Server) -> None:
        execution = run(server.client, {"message": "one", "session_id": "refused"})
        wait_for(server.client, execution, "waiting")
        refused = server.client.post(f"{WORKER}/run", {"session_id": "refused"})
        assert (refused.status, refused.body["waiting"]) == (409, [execution])
        assert f"POST /executions/{execution}/respond" in refused.body["detail"]
        assert "agentmd" not in refused.body["detail"]
        server.client.request("DELETE", f"/executions/{execution}")

    @pytest.mark.parametrize(
        "url",
        [
            *("http://127.0.0.1:9000/", "http://localhost/", "https://10.0.0.1/hook", "http://[::1]/"),
            *("http://2130706433/", "http://169.254.169.254/latest", "ftp://example.com/"),
        ],
    )
    def test_a_webhook_that_would_never_be_sent_begins_no_turn(self, server: Server, url: str) -> None:
        talk = Talk.begin(server)
        refused = talk.say("hello", webhook={"url": url})
        assert (refused.status, "the webhook cannot be used" in refused.body["detail"]) == (422, True)
        assert talk.executions() == []


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

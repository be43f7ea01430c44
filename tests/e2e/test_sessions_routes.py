"""What the sessions routes take and refuse, and where sessions are, with a real server process."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.server import Server, run
from tests.support.sessions import WORKER, Talk, talking_world
from tests.support.waiting import until
from tests.support.world import World

CONFIG = """
server:
  default_agent: worker
  allow_custom_ids: true
  trusted_roles: [user, assistant, system, tool]
"""
CALL = {"id": "c1", "type": "function", "function": {"name": "plain", "arguments": '{"key": "é"}'}}
STATE = [
    {"role": "system", "content": "Rhyme."},
    {"role": "user", "content": "before", "user_params": {"a": [None, 1e-7]}, "name": "Ann"},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "did é", "tool_call_id": "c1", "name": "plain"},
    {"role": "assistant", "content": "Yes?"},
]


def _agent(world: World, name: str, more: str = "") -> None:
    """Another agent that talks like `worker`."""
    text = (world.workspace / "agents/worker.md").read_text()
    file = world.workspace / f"agents/{name.replace(' ', '-')}.md"
    file.write_text(text.replace("name: worker\n", f"name: {name}\n{more}", 1))


@pytest.fixture(scope="module")
def open_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = talking_world(tmp_path_factory.mktemp("open") / "ws", CONFIG)
    _agent(world, "Café au lait")
    _agent(world, "other")
    return world


@pytest.fixture(scope="module")
def server(open_world: World) -> Iterator[Server]:
    """A server that lets clients choose ids, roles, and no agent."""
    with Server(open_world.workspace) as running:
        yield running


class TestWhere:
    def test_under_sessions_the_agent_is_in_the_body_or_the_default(self, server: Server) -> None:
        made = server.client.post("/sessions")
        session_id = made.body["session_id"]
        assert made.headers["location"] == f"/sessions/{session_id}"
        assert server.client.get(f"{WORKER}/sessions/{session_id}").status == 200
        other = Talk.begin(server, {"agent": "OTHER"}, base="")
        assert server.client.get(f"{WORKER}/sessions/{other.id}").status == 404
        assert server.client.get(f"/agents/other/sessions/{other.id}").status == 200
        assert other.told("one")["status"] == "interrupted"
        assert other.say("more").status == 409
        assert other.resume(other.get().body["interrupts"][0], {"approved": True}).status == 200
        assert other.rest()["response"]["content"] == "It was decided."
        assert len(other.messages()) == 4
        assert other.delete().status == 204
        assert other.get().status == 404

    def test_without_a_default_an_agent_is_needed(self, served: Server) -> None:
        refused = served.client.post("/sessions", {})
        assert refused.status == 422
        assert "server.default_agent" in refused.body["detail"]
        assert served.client.post("/sessions", {"agent": "nobody"}).status == 404
        assert served.client.post("/sessions", {"agent": "worker"}).status == 201

    def test_in_an_agents_path_no_other_one_is_named(self, server: Server) -> None:
        assert server.client.post(f"{WORKER}/sessions", {"agent": "Worker"}).status == 201
        assert server.client.post(f"{WORKER}/sessions", {"agent": "other"}).status == 422

    def test_an_id_of_several_agents(self, server: Server) -> None:
        for agent in ("worker", "other"):
            run(server.client, {"message": "hello", "session_id": "shared"}, agent=agent)
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/messages")):
            refused = server.client.request(method, f"/sessions/shared{path}")
            assert (refused.status, sorted(refused.body["agents"])) == (409, ["other", "worker"])
        assert server.client.post("/sessions/shared/messages", {"content": "hello"}).status == 409
        assert server.client.request("DELETE", "/agents/other/sessions/shared").status == 204
        assert server.client.get("/sessions/shared").status == 200

    def test_names_with_blanks_and_accents(self, server: Server) -> None:
        path = f"/agents/{quote('CAFÉ au lait')}/sessions"
        made = server.client.post(path)
        place = f"/agents/{quote('Café au lait')}/sessions/{made.body['session_id']}"
        assert made.headers["location"] == place
        accepted = server.client.post(f"{place}/messages", {"content": "hello"})
        assert (accepted.status, accepted.headers["location"]) == (202, place)

    def test_the_listing(self, served: Server, talking: World) -> None:
        _agent(talking, "lister")
        first, second = (Talk.begin(served, base="/agents/lister") for _ in range(2))
        first.told("hello")
        second.told("one")
        listed = served.client.get("/agents/lister/sessions").body
        assert {frozenset(item.items()) for item in listed} == {
            frozenset({"session_id": talk.id, "agent": "lister", "total_messages": 2, "status": status}.items())
            for talk, status in ((first, "idle"), (second, "interrupted"))
        }
        assert [item["session_id"] for item in listed] == [second.id, first.id]
        assert {first.id, second.id} <= {item["session_id"] for item in served.client.get("/sessions").body}
        assert served.client.get("/agents/nobody/sessions").status == 404

    def test_a_session_outlives_the_file_of_its_agent(self, served: Server, talking: World) -> None:
        _agent(talking, "fleeting")
        talk = Talk.begin(served, base="/agents/fleeting")
        (asked,) = talk.told("one")["interrupts"]
        (talking.workspace / "agents/fleeting.md").unlink()
        assert served.client.get("/agents/fleeting/sessions").body[0]["session_id"] == talk.id
        assert talk.resume(asked, {"approved": False}).status == 200
        assert talk.rest()["response"]["content"] == "It was decided."
        assert talk.say("hello").status == 404
        assert talk.delete().status == 204

    def test_an_agent_that_cannot_run_begins_nothing(self, served: Server, talking: World) -> None:
        _agent(talking, "resting", "enabled: false\n")
        folder = talking.workspace / "agents"
        (folder / "broken.md").write_text("---\nconfrim: x\n---\n")
        (folder / "keyless.md").write_text("---\nmodel: {provider: google, name: gemini-2.5-flash}\n---\n")
        statuses = {
            name: served.client.post(f"/agents/{name}/sessions").status
            for name in ("resting", "broken", "keyless", "none")
        }
        assert statuses == {"resting": 409, "broken": 422, "keyless": 422, "none": 404}
        talk = Talk.begin(served)
        (folder / "worker.md").rename(folder / "away")
        try:
            assert talk.say("hello").status == 404
        finally:
            (folder / "away").rename(folder / "worker.md")
        assert talk.told("hello")["status"] == "idle"

    def test_health_tells_working_from_waiting(self, served: Server) -> None:
        before = served.client.get("/health").body
        assert (before["status"], before["max_workers"]) == ("ok", 32)
        asking, slow = Talk.begin(served), Talk.begin(served)
        asking.told("one")
        slow.say("slow")
        slow.until_driven()
        now = served.client.get("/agents/worker/health").body
        grown = {name: now[name] - before[name] for name in before if name != "status"}
        assert grown == {"working": 1, "waiting": 1, "max_workers": 0, "running_workers": 1, "total_sessions": 2}
        assert served.client.get("/agents/nobody/health").status == 404
        slow.delete()


class TestIds:
    def test_ids_are_uuids(self, served: Server) -> None:
        made = served.client.post(f"{WORKER}/sessions").body["session_id"]
        assert str(uuid.UUID(made)) == made
        assert uuid.UUID(made).version == 4

    def test_clients_may_choose_a_uuid(self, server: Server) -> None:
        chosen = str(uuid.uuid4())
        made = server.client.request("PUT", f"/sessions/{chosen}", {"state": STATE})
        assert (made.status, made.body["session_id"]) == (201, chosen)
        assert made.headers["location"] == f"/sessions/{chosen}"
        assert server.client.request("PUT", f"/sessions/{chosen}").status == 409
        assert server.client.request("PUT", f"{WORKER}/sessions/{chosen}").status == 409
        assert server.client.request("PUT", f"/agents/other/sessions/{chosen}").status == 201
        assert len(server.client.get(f"{WORKER}/sessions/{chosen}/messages").body) == len(STATE)

    def test_a_uuid_counts_in_any_form(self, server: Server) -> None:
        chosen = uuid.uuid4()
        made = server.client.request("PUT", f"/sessions/{str(chosen).upper()}")
        assert made.body["session_id"] == str(chosen)
        for form in (str(chosen), str(chosen).upper(), chosen.hex):
            assert server.client.get(f"/sessions/{form}").body["session_id"] == str(chosen)
            assert server.client.request("PUT", f"/sessions/{form}").status == 409

    @pytest.mark.parametrize("form", ["{%s}", "urn:uuid:%s", " %s", "%s0", "%.8s", "x"])
    def test_what_is_no_uuid_is_refused(self, server: Server, form: str) -> None:
        text = form % uuid.uuid4() if "%" in form else form
        refused = server.client.request("PUT", f"/sessions/{quote(text)}")
        assert refused.status == 400
        assert "UUID" in refused.body["detail"]

    def test_unless_it_is_off(self, served: Server) -> None:
        refused = served.client.request("PUT", f"{WORKER}/sessions/{uuid.uuid4()}")
        assert (refused.status, refused.headers["allow"]) == (405, "GET, DELETE")
        assert "server.allow_custom_ids" in refused.body["detail"]


class TestMessages:
    def test_what_was_said_before(self, server: Server) -> None:
        talk = Talk.begin(server, {"state": STATE})
        assert talk.messages() == STATE
        assert talk.told("hello")["response"]["content"] == "Hello."
        assert talk.messages() == [
            *STATE,
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "Hello."},
        ]

    @pytest.mark.parametrize(
        "message",
        [
            {},
            {"content": None},
            {"content": ""},
            {"content": " \n"},
            {"content": ["x"]},
            {"content": "x", "role": "robot"},
            {"content": "x", "tool_calls": [CALL]},
            {"content": "x", "tool_call_id": "c1"},
            {"content": "x", "role": "tool"},
            {"role": "assistant"},
            {"role": "assistant", "tool_calls": []},
            {"role": "assistant", "tool_calls": [CALL, CALL]},
            {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "[]"}}]},
            {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{"}}]},
            {"role": "assistant", "tool_calls": [{**CALL, "function": {"name": "f", "arguments": '{"a": NaN}'}}]},
            {"content": "x", "user_params": []},
            {"content": "\ud800"},
        ],
        ids=repr,
    )
    def test_a_message_of_no_good_form_is_refused(self, server: Server, message: dict[str, Any]) -> None:
        assert server.client.post("/sessions", {"state": [message]}).status == 422
        talk = Talk.begin(server)
        assert talk.client.post(f"{talk.path}/messages", message).status == 422
        assert talk.executions() == []

    def test_only_a_user_begins_a_turn(self, server: Server) -> None:
        talk = Talk.begin(server)
        for message in STATE[2:]:
            assert talk.client.post(f"{talk.path}/messages", message).status == 422
        assert talk.executions() == []

    @pytest.mark.parametrize("message", [STATE[0], STATE[2], STATE[3]], ids=lambda message: message["role"])
    def test_other_roles_are_not_trusted_unless_told(self, served: Server, message: dict[str, Any]) -> None:
        refused = served.client.post(f"{WORKER}/sessions", {"state": [message]})
        assert refused.status == 422
        assert "server.trusted_roles" in refused.body["detail"]
        talk = Talk.begin(served, {"state": [STATE[1]]})
        refused = talk.client.post(f"{talk.path}/messages", message)
        assert "server.trusted_roles" in refused.body["detail"]

    @pytest.mark.parametrize(
        "raw", [b"{", b"null", b"[]", b'{"content": "\xff"}', b'{"content": 1e999}', b"[" * 99_999]
    )
    def test_hostile_bodies(self, served: Server, raw: bytes) -> None:
        talk = Talk.begin(served)
        for path in ("messages", "resume"):
            assert served.client.request("POST", f"{talk.path}/{path}", raw=raw).status in (400, 422)
        deep = b'{"content": "x", "user_params": {"a": ' + b"[" * 200 + b"]" * 200 + b"}}"
        assert served.client.request("POST", f"{talk.path}/messages", raw=deep).status == 422
        assert talk.executions() == []

    def test_a_webhook_is_kept_out_of_sight(self, served: Server, talking: World) -> None:
        talk = Talk.begin(served)
        hook = {"url": "https://example.com/hook", "token": "hook-token", "include_messages": True}
        refused = talk.say("hello", webhook={**hook, "url": "file:///etc/passwd"})
        assert refused.status == 422
        assert talk.say("hello", webhook={"token": "hook-token"}).status == 422
        assert talk.executions() == []
        assert talk.say("slow", webhook=hook).status == 202
        (turn,) = talk.executions()
        with sqlite3.connect(f"file:{talking.workspace}/.agentmd/agentmd.db?mode=ro", uri=True) as database:
            kept = database.execute("SELECT url, token FROM webhook_targets WHERE execution_id = ?", (turn["id"],))
            assert kept.fetchall() == [("https://example.com/hook", "hook-token")]
        database.close()
        for shown in (talk.get(), served.client.get(f"/executions/{turn['id']}/messages")):
            assert "hook-token" not in str(shown)
        talk.delete()


class TestLimits:
    def test_there_are_no_more_sessions_than_allowed_and_those_that_rest_expire(self, tmp_path: Path) -> None:
        world = talking_world(tmp_path / "ws", "server: {max_sessions: 2, session_ttl: 1s}\n")
        with Server(world.workspace) as server:
            kept, other = Talk.begin(server), Talk.begin(server)
            assert [talk.told("one")["status"] for talk in (kept, other)] == ["interrupted"] * 2
            refused = server.client.post(f"{WORKER}/sessions")
            assert refused.status == 503
            assert "server.max_sessions" in refused.body["detail"]
            other.delete()
            resting = Talk.begin(server)
            until(lambda: resting.get().status == 404)
            assert kept.get().body["status"] == "interrupted"
            assert "Traceback" not in (world.workspace / ".agentmd/agentmd.log").read_text()

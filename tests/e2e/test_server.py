"""A real server process, real sockets, real signals."""

from __future__ import annotations

import json
import os
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import Answer, Client, Server, SseEvent
from tests.support.waiting import until
from tests.support.world import World

ASKS = """
conversations:
  - match: {user: slow}
    turns:
      - {delay: 60s, text: Late.}
  - turns:
      - {text: Look., calls: [{name: danger, args: {key: A}}], usage: {input: 10, output: 1, cost: 0.5}}
      - {text: End., usage: {input: 20, output: 2, cost: 0.25}}
"""


@pytest.fixture
def asking(tmp_path: Path) -> World:
    world = World(tmp_path / "ws")
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(ASKS)
    return world


@pytest.fixture
def server(asking: World) -> Iterator[Server]:
    with Server(asking.workspace) as running:
        yield running


def run(client: Client, body: Any = None, agent: str = "worker", **headers: str) -> int:
    answer = client.post(f"/agents/{agent}/run", body, **headers)
    assert answer.status == 200, answer
    number: int = answer.body["execution_id"]
    return number


def wait_for(client: Client, execution: int, status: str) -> dict[str, Any]:
    def reached() -> bool:
        return bool(client.get(f"/executions/{execution}").body["status"] == status)

    until(reached)
    body: dict[str, Any] = client.get(f"/executions/{execution}").body
    return body


def respond(client: Client, execution: int, response: Any, request_id: str | None = None, **more: str) -> Answer:
    body = {"response": response, **({"request_id": request_id} if request_id else {}), **more}
    return client.post(f"/executions/{execution}/respond", body)


class TestShapes:
    def test_health_and_info(self, server: Server) -> None:
        assert server.client.get("/health").body == {"status": "ok"}
        info = server.client.get("/info").body
        assert info["pid"] == server.process.pid
        assert {
            "version",
            "uptime_seconds",
            "agents_loaded",
            "agents_enabled",
            "scheduler_status",
            "watcher_active",
        } <= set(info)
        assert (info["active_streams"], info["active_executions"], info["waiting_executions"]) == (0, 0, 0)

    def test_agents(self, server: Server) -> None:
        (listed,) = server.client.get("/agents").body
        assert (listed["name"], listed["enabled"], listed["trigger_type"]) == ("worker", True, "manual")
        detail = server.client.get("/agents/worker").body
        assert {"last_run", "next_run", "history", "settings", "paths", "custom_tools", "confirm"} <= set(detail)
        assert server.client.get("/agents/nobody").status == 404

    def test_invalid_files_and_reload(self, server: Server) -> None:
        folder = server.workspace / "agents"
        with server.client.stream("/events/stream") as events:
            (folder / "broken.md").write_text("---\nconfrim: x\n---\n")
            (folder / "other.md").write_text((folder / "worker.md").read_text().replace("name: worker\n", "", 1))
            assert server.client.post("/agents/reload").body == {"agents_loaded": 2}
            told = {(e.event, e.data["event"], e.data["agent_name"]) for e in _take(events, 2, "agents_changed")}
        assert ("agents_changed", "loaded", "other") in told
        (invalid,) = server.client.get("/agents/invalid").body
        assert "confrim" in invalid["error"]

    def test_names_with_blanks_and_accents(self, server: Server) -> None:
        folder = server.workspace / "agents"
        (folder / "x.md").write_text(
            (folder / "worker.md").read_text().replace("name: worker", "name: Café au lait", 1)
        )
        execution = run(server.client, agent=urllib.parse.quote("Café au lait"))
        assert wait_for(server.client, execution, "waiting")["agent_id"] == "Café au lait"

    def test_run_without_a_body_and_with_one(self, server: Server) -> None:
        answer = server.client.post("/agents/worker/run")
        assert set(answer.body) == {"execution_id", "model"}
        other = run(server.client, {"message": "hello", "args": ["x"], "session_id": "s1"})
        shown = server.client.get(f"/executions/{other}").body
        assert (shown["session_id"], shown["trigger"]) == ("s1", "api")
        wait_for(server.client, other, "waiting")
        human = next(e for e in server.client.get(f"/executions/{other}/messages").body if e["event_type"] == "human")
        assert human["message"] == "hello\nx"

    def test_a_whole_execution(self, server: Server) -> None:
        execution = run(server.client)
        detail = wait_for(server.client, execution, "waiting")
        (request,) = detail["pending"]
        assert server.client.get(f"/executions/{execution}/pending").body["request_id"] == request["request_id"]
        assert [r["request_id"] for r in server.client.get("/pending").body] == [request["request_id"]]
        assert respond(server.client, execution, {"approved": True}).body == {
            "status": "resuming",
            "execution_id": execution,
        }
        done = wait_for(server.client, execution, "success")
        assert done["output_data"] == "End."
        assert (done["input_tokens"], done["output_tokens"], done["total_tokens"], done["cost_usd"]) == (
            30,
            3,
            33,
            0.75,
        )
        assert server.client.get(f"/executions/{execution}/pending").status == 404
        (decided,) = server.client.get(f"/executions/{execution}/requests").body
        assert (decided["outcome"], decided["answered_by"]) == ("approved", "api")
        log = server.client.get(f"/executions/{execution}/messages").body
        assert [e["event_type"] for e in log][-2:] == ["final_answer", "complete"]
        assert all(isinstance(json.loads(e["metadata"]), dict) for e in log)
        assert [e["id"] for e in server.client.get("/executions?status=success&agent=worker").body] == [execution]
        assert [e["id"] for e in server.client.get("/agents/worker/runs?limit=1").body] == [execution]

    def test_the_scheduler_says_that_it_is_off(self, server: Server) -> None:
        assert server.client.get("/scheduler").body == {"status": "off", "jobs": []}
        assert server.client.post("/scheduler/pause").status == 409

    def test_openapi_is_complete(self, server: Server) -> None:
        api = server.client.get("/openapi.json").body
        routes = {(method, path) for path, methods in api["paths"].items() for method in methods}
        assert len(routes) >= 21
        for path, methods in api["paths"].items():
            for method, route in methods.items():
                assert route.get("summary"), (method, path)
                assert route.get("description"), (method, path)
                assert "200" in route["responses"], (method, path)
                assert path == "/health" or "401" in route["responses"], (method, path)


class TestAnswers:
    def test_refused_answers_run_nothing(self, server: Server, asking: World) -> None:
        execution = run(server.client)
        request = wait_for(server.client, execution, "waiting")["pending"][0]["request_id"]
        for wrong in ({"approved": "false"}, {}, None, {"approved": True, "x": 1}, {"text": "y"}, [], "yes", 1):
            assert respond(server.client, execution, wrong, request).status == 422, wrong
        for args in ({}, {"key": 1}, {"key": "A", "more": 1}):
            assert respond(server.client, execution, {"approved": True, "args": args}, request).status == 422, args
        assert respond(server.client, execution, {"approved": True}, "nonsense").status == 404
        assert respond(server.client, 999, {"approved": True}).status == 404
        assert server.client.get(f"/executions/{execution}").body["status"] == "waiting"
        assert asking.effects() == {}

    def test_the_same_again_is_taken_a_different_one_is_not(self, server: Server, asking: World) -> None:
        execution = run(server.client)
        request = wait_for(server.client, execution, "waiting")["pending"][0]["request_id"]
        assert respond(server.client, execution, {"approved": True}, request, by="ann").status == 200
        wait_for(server.client, execution, "success")
        assert respond(server.client, execution, {"approved": True}, request).status == 200
        late = respond(server.client, execution, {"approved": False}, request)
        assert late.status == 409
        assert (late.body["outcome"], late.body["answered_by"]) == ("approved", "ann")
        assert late.body["answered_at"].endswith("Z")
        assert asking.effects()["A"] == 1

    def test_fifty_answers_at_once(self, server: Server, asking: World) -> None:
        execution = run(server.client)
        request = wait_for(server.client, execution, "waiting")["pending"][0]["request_id"]
        with ThreadPoolExecutor(25) as pool:
            answers = list(
                pool.map(lambda n: (n, respond(server.client, execution, {"approved": n % 2 == 0}, request)), range(50))
            )
        wait_for(server.client, execution, "success")
        won = server.client.get(f"/executions/{execution}/requests").body[0]["outcome"] == "approved"
        for number, answer in answers:
            assert answer.status == (200 if (number % 2 == 0) == won else 409), (number, answer)
        assert asking.effects()["A"] == int(won)

    def test_several_open_and_none_named(self, server: Server) -> None:
        (server.workspace / "agents/_config/scripts/worker.yaml").write_text(
            "conversations: [{turns: [{calls: [{name: danger, args: {key: A}}, {name: danger, args: {key: B}}]}, {text: E}]}]"
        )
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        several = respond(server.client, execution, {"approved": True})
        assert several.status == 409
        assert len(several.body["open"]) == 2


class TestAdmission:
    def test_on_pending_by_conversation(self, server: Server) -> None:
        first = run(server.client)
        in_a = run(server.client, {"session_id": "A"})
        for execution in (first, in_a):
            wait_for(server.client, execution, "waiting")
        refused = server.client.post("/agents/worker/run")
        assert (refused.status, refused.body["waiting"]) == (409, [first])
        assert server.client.post("/agents/worker/run", {"session_id": "A"}).body["waiting"] == [in_a]
        in_b = run(server.client, {"session_id": "B"})
        assert in_b not in (first, in_a)
        respond(server.client, first, {"approved": True})
        wait_for(server.client, first, "success")
        assert run(server.client) > in_b

    def test_disabled_invalid_and_unknown_agents_create_nothing(self, server: Server) -> None:
        folder = server.workspace / "agents"
        text = (folder / "worker.md").read_text()
        (folder / "resting.md").write_text(text.replace("name: worker\n", "name: resting\nenabled: false\n", 1))
        (folder / "broken.md").write_text("---\nconfrim: x\n---\n")
        (folder / "keyless.md").write_text("---\nmodel: {provider: google, name: gemini-2.5-flash}\n---\n")
        codes = {
            name: server.client.post(f"/agents/{name}/run").status for name in ("resting", "broken", "keyless", "none")
        }
        assert codes == {"resting": 409, "broken": 422, "keyless": 422, "none": 404}
        assert server.client.get("/executions").body == []

    def test_idempotency_key(self, server: Server) -> None:
        first = run(server.client, {"message": "m"}, Idempotency_Key="k")
        wait_for(server.client, first, "waiting")
        assert run(server.client, {"message": "m"}, Idempotency_Key="k") == first
        assert server.client.post("/agents/worker/run", {"message": "other"}, Idempotency_Key="k").status == 422
        refused = server.client.post("/agents/worker/run", {"message": "n"}, Idempotency_Key="k2")
        assert refused.status == 409
        respond(server.client, first, {"approved": True})
        wait_for(server.client, first, "success")
        assert run(server.client, {"message": "n"}, Idempotency_Key="k2") > first


class TestCancel:
    def test_waiting_running_and_finished(self, server: Server) -> None:
        waiting = run(server.client)
        wait_for(server.client, waiting, "waiting")
        assert server.client.request("DELETE", f"/executions/{waiting}").body["status"] == "aborted"
        (request,) = server.client.get(f"/executions/{waiting}/requests").body
        assert request["outcome"] == "cancelled"
        assert respond(server.client, waiting, {"approved": True}).status == 409
        running = run(server.client, {"message": "slow"})
        wait_for(server.client, running, "running")
        assert server.client.request("DELETE", f"/executions/{running}").body["status"] == "cancelling"
        wait_for(server.client, running, "aborted")
        assert server.client.request("DELETE", f"/executions/{running}").body["status"] == "aborted"
        assert server.client.request("DELETE", "/executions/77").status == 404


class TestBadRequests:
    @pytest.mark.parametrize(
        ("method", "path", "raw", "status"),
        [
            ("POST", "/agents/worker/run", b"{broken", 422),
            ("POST", "/agents/worker/run", b"[]", 422),
            ("POST", "/agents/worker/run", b'{"args": "x"}', 422),
            ("POST", "/agents/worker/run", b'{"message": "' + b"x" * 1_000_001 + b'"}', 413),
            ("POST", "/executions/1/respond", b"", 422),
            ("POST", "/executions/1/respond", b'{"response": {}}', 404),
            ("GET", "/executions/abc", None, 422),
            ("GET", f"/executions/{10**30}", None, 404),
            ("GET", "/executions/-1", None, 404),
            ("GET", "/executions?limit=0", None, 422),
            ("GET", f"/executions?offset={10**30}", None, 422),
            ("GET", "/executions?status=nonsense", None, 422),
            ("GET", "/pending?limit=x", None, 422),
            ("GET", "/nowhere", None, 404),
            ("PUT", "/agents", None, 405),
        ],
    )
    def test_gets_a_clear_error(self, server: Server, method: str, path: str, raw: bytes | None, status: int) -> None:
        answer = server.client.request(method, path, raw=raw)
        assert answer.status == status, answer
        assert answer.body["detail"]


class TestStreams:
    def test_cut_at_every_event_and_resumed(self, server: Server) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        respond(server.client, execution, {"approved": True})
        wait_for(server.client, execution, "success")
        log = [entry["id"] for entry in server.client.get(f"/executions/{execution}/messages").body]
        for cut in range(len(log) + 1):
            seen: list[int] = []
            with server.client.stream(f"/executions/{execution}/stream") as events:
                seen += [e.id for e in _take(events, cut) if e.id is not None]
            last = str(seen[-1]) if seen else None
            with server.client.stream(f"/executions/{execution}/stream", last) as events:
                seen += [e.id for e in events if e.id is not None]
            assert seen == log

    def test_live_from_before_the_question_to_the_end(self, server: Server) -> None:
        execution = run(server.client)
        with server.client.stream(f"/executions/{execution}/stream") as events:
            names = []
            for event in events:
                names.append(event.event)
                if event.event == "waiting":
                    assert event.data["requests"][0]["kind"] == "confirm"
                    respond(server.client, execution, {"approved": True})
        stored = [name for name in names if name != "delta"]
        assert stored == [
            *("system", "human", "ai", "tool_call", "interrupt", "waiting", "resumed", "tool_result"),
            *("ai", "final_answer", "complete"),
        ]
        assert stored.count("tool_call") == 1

    @pytest.mark.parametrize("unknown", ["abc", "999999", "-1", str(2**80)])
    def test_an_unknown_position_starts_anew(self, server: Server, unknown: str) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        with server.client.stream(f"/executions/{execution}/stream", unknown) as events:
            first = _take(events, 2)
        assert [e.event for e in first] == ["resync", "system"]

    def test_of_an_execution_that_another_process_drives(self, server: Server, asking: World) -> None:
        started = asking.cli("run", "worker")
        assert started.code == 3
        with server.client.stream("/executions/1/stream") as events:
            seen = _take(events, 6)
            assert seen[-1].event == "waiting"
            assert asking.cli("respond", "1", "--yes").code == 0
            assert [e.event for e in events][-1] == "complete"

    def test_everything(self, server: Server) -> None:
        with server.client.stream("/events/stream") as events:
            assert _take(events, 1)[0].event == "heartbeat"
            execution = run(server.client)
            started, waiting = _take(events, 2)
            assert (started.event, started.data["agent_name"], started.data["trigger"]) == (
                "execution_started",
                "worker",
                "api",
            )
            assert (waiting.event, waiting.data["kind"]) == ("execution_waiting", "confirm")
            respond(server.client, execution, {"approved": True}, waiting.data["request_id"])
            resumed, completed = _take(events, 2)
        assert resumed.event == "execution_resumed"
        assert (completed.event, completed.data["status"]) == ("execution_completed", "success")
        with server.client.stream("/events/stream", str(started.id)) as events:
            again = [e.event for e in _take(events, 4) if e.event != "heartbeat"]
        assert again == ["execution_waiting", "execution_resumed", "execution_completed"]

    def test_idle_streams_harm_nobody(self, server: Server) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        sockets = []
        for _ in range(20):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(server.client.socket_path))
            client.sendall(f"GET /executions/{execution}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            sockets.append(client)
        until(lambda: server.client.get("/info").body["active_streams"] == 20)
        respond(server.client, execution, {"approved": True})
        wait_for(server.client, execution, "success")
        for client in sockets:
            client.close()
        until(lambda: server.client.get("/info").body["active_streams"] == 0)


class TestLife:
    def test_a_killed_server_comes_back_to_what_waited(self, asking: World) -> None:
        with Server(asking.workspace) as first:
            execution = run(first.client)
            wait_for(first.client, execution, "waiting")
            with first.client.stream(f"/executions/{execution}/stream") as events:
                seen = _take(events, 6)
            first.kill()
        with Server(asking.workspace) as second:
            with second.client.stream(f"/executions/{execution}/stream", str(seen[-1].id)) as events:
                assert respond(second.client, execution, {"approved": True}).status == 200
                rest = [e for e in events if e.event != "delta"]
            assert [e.event for e in rest] == ["resumed", "tool_result", "ai", "final_answer", "complete"]
            assert len(second.client.get(f"/executions/{execution}/requests").body) == 1
        assert asking.effects()["A"] == 1

    def test_killed_in_a_model_call(self, asking: World) -> None:
        with Server(asking.workspace) as first:
            execution = run(first.client, {"message": "slow"})
            wait_for(first.client, execution, "running")
            first.kill()
        (asking.workspace / "agents/_config/scripts/worker.yaml").write_text(ASKS.replace("delay: 60s, ", ""))
        with Server(asking.workspace) as second:
            assert wait_for(second.client, execution, "success")["output_data"] == "Late."

    def test_killed_in_a_tool(self, asking: World) -> None:
        with Server(asking.workspace, env={"KILL_IN_TOOL": "A:after"}) as first:
            execution = run(first.client)
            wait_for(first.client, execution, "waiting")
            respond(first.client, execution, {"approved": True})
            until(lambda: first.process.ended)
        with Server(asking.workspace) as second:
            wait_for(second.client, execution, "success")
            log = second.client.get(f"/executions/{execution}/messages").body
        assert any("may have run" in e["message"] for e in log if e["event_type"] == "tool_result")
        assert asking.effects()["A"] == 1

    @pytest.mark.parametrize("timeout", ["3s", "1h"])
    def test_deadlines_over_a_restart(self, asking: World, timeout: str) -> None:
        agent = asking.workspace / "agents/worker.md"
        agent.write_text(
            agent.read_text().replace("confirm: [danger]", f"confirm: [danger]\nconfirm_timeout: {timeout}")
        )
        with Server(asking.workspace) as first:
            execution = run(first.client)
            asked = wait_for(first.client, execution, "waiting")["pending"][0]
            first.kill()
        if timeout == "1h":
            with Server(asking.workspace) as second:
                assert second.client.get(f"/executions/{execution}/pending").body["expires_at"] == asked["expires_at"]
            return
        deadline = time.time() + 3
        until(lambda: time.time() > deadline)
        with Server(asking.workspace) as second:
            wait_for(second.client, execution, "success")
            (request,) = second.client.get(f"/executions/{execution}/requests").body
            assert (request["outcome"], request["answered_by"]) == ("expired", "timeout")
            log = second.client.get(f"/executions/{execution}/messages").body
            assert any(e["message"] == "Action denied by user (timeout)" for e in log)
        assert asking.effects() == {}

    def test_a_deadline_fires_within_a_second(self, asking: World) -> None:
        agent = asking.workspace / "agents/worker.md"
        agent.write_text(agent.read_text().replace("confirm: [danger]", "confirm: [danger]\nconfirm_timeout: 1s"))
        with Server(asking.workspace) as server:
            execution = run(server.client)
            wait_for(server.client, execution, "success")
            (request,) = server.client.get(f"/executions/{execution}/requests").body
            assert request["outcome"] == "expired"

    def test_one_server_a_workspace(self, server: Server, asking: World) -> None:
        second = asking.cli("start")
        assert second.code == 2
        assert str(server.address["socket"]) in second.err
        assert asking.cli("status").code == 0

    def test_stops_gracefully_with_open_streams_and_a_model_call(self, asking: World) -> None:
        with Server(asking.workspace) as server:
            execution = run(server.client, {"message": "slow"})
            wait_for(server.client, execution, "running")
            with server.client.stream(f"/executions/{execution}/stream") as events:
                _take(events, 2)
                begun = time.monotonic()
                assert server.stop().code == 0
                assert time.monotonic() - begun < 5
            assert not (server.state / "server.json").exists()
            assert not Path(server.client.socket_path).exists()
        assert asking.status() == "queued"
        assert asking.cli("status").code == 1

    def test_start_stop_and_status_in_the_background(self, asking: World) -> None:
        assert asking.cli("start", "-d").code == 0
        try:
            shown = asking.cli("status")
            assert shown.code == 0
            assert "agents enabled" in shown.out
        finally:
            assert asking.cli("stop").code == 0
        assert asking.cli("status").code == 1
        assert asking.cli("stop").code == 0

    def test_the_command_line_with_a_live_server(self, server: Server, asking: World) -> None:
        handed = asking.cli("run", "-d", "worker")
        assert handed.code == 0, handed
        wait_for(server.client, 1, "waiting")
        answered = asking.cli("respond", "1", "--yes")
        assert answered.code == 0
        wait_for(server.client, 1, "success")
        assert asking.effects()["A"] == 1
        assert asking.cli("run", "-d", "worker", "-m", "slow").code == 0
        wait_for(server.client, 2, "running")
        assert asking.cli("cancel", "2").code == 0
        wait_for(server.client, 2, "aborted")

    def test_run_detached_without_a_server(self, asking: World) -> None:
        assert asking.cli("run", "-d", "worker").code == 0
        until(lambda: asking.status() == "waiting")
        assert asking.cli("status").code == 1
        assert asking.cli("respond", "1", "--yes").code == 0


class TestTcp:
    def test_always_has_a_key(self, asking: World) -> None:
        with Server(asking.workspace, "--port", "0") as server:
            url = server.address["url"]
            key = Path(server.address["key_file"]).read_text().strip()
            assert os.stat(server.address["key_file"]).st_mode & 0o777 == 0o600
            assert _status(f"{url}/health") == 200
            assert _status(f"{url}/openapi.json") == 200
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


def _take(events: Iterator[SseEvent], count: int, name: str | None = None) -> list[SseEvent]:
    """The next events, or the next of one name."""
    taken: list[SseEvent] = []
    while len(taken) < count:
        event = next(events)
        if event.event != "delta" and (name is None or event.event == name):
            taken.append(event)
    return taken

"""What each route takes and gives, from a real server process."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.gates import GATES, open_gate, until_begun
from tests.support.processes import Cli
from tests.support.server import Client, Server, respond, run, take, wait_for
from tests.support.waiting import until
from tests.support.world import World


class TestShapes:
    def test_health_and_info(self, server: Server) -> None:
        assert server.client.get("/health").body["status"] == "ok"
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

    def test_no_page_of_it_runs_scripts(self, server: Server) -> None:
        assert [server.client.get(path).status for path in ("/docs", "/redoc", "/")] == [404, 404, 404]
        assert "text/html" not in json.dumps(server.client.get("/openapi.json").body)

    def test_invalid_files_and_reload(self, server: Server) -> None:
        folder = server.workspace / "agents"
        with server.client.stream("/events/stream") as events:
            (folder / "broken.md").write_text("---\nconfrim: x\n---\n")
            (folder / "other.md").write_text((folder / "worker.md").read_text().replace("name: worker\n", "", 1))
            assert server.client.post("/agents/reload").body["agents_loaded"] == 2
            told = {(e.event, e.data["event"], e.data["agent_name"]) for e in take(events, 2, "agents_changed")}
        assert ("agents_changed", "loaded", "other") in told
        (invalid,) = server.client.get("/agents/invalid").body
        assert "confrim" in invalid["error"]

    def test_a_half_saved_file_goes_on_as_it_was_and_is_told(self, server: Server) -> None:
        path = server.workspace / "agents/worker.md"
        whole = path.read_text()
        before = server.client.get("/agents/worker").body
        with server.client.stream("/events/stream") as events:
            path.write_text(whole[: whole.index("---", 3)])
            (told,) = take(events, 1, "agents_changed")
            assert (told.data["event"], told.data["agent_name"]) == ("invalid", "worker")
            (invalid,) = server.client.get("/agents/invalid").body
            assert invalid == {"file": "agents/worker.md", "error": told.data["error"], "last_good": "worker"}
            assert server.client.get("/agents/worker").body == before
            assert run(server.client)
            log = (server.workspace / ".agentmd/agentmd.log").read_text()
            assert f"invalid agent file: {told.data['error']} (worker stays as it was when it was valid last)" in log
            told_of_it = (
                "1 file cannot be used (`agentmd list` says why); an agent stays as it was when its file was valid"
            )
            assert told_of_it in Cli(server.workspace)("status").out
            path.write_text(whole)
            (mended,) = take(events, 1, "agents_changed")
            assert (mended.data["event"], mended.data["agent_name"]) == ("updated", "worker")
        assert server.client.get("/agents/invalid").body == []

    def test_a_key_that_is_added_to_dotenv_counts(self, server: Server) -> None:
        agent = server.workspace / "agents/keyed.md"
        agent.write_text(
            "---\nmodel: {provider: google, name: gemini-2.5-flash, base_url: 'http://127.0.0.1:9'}\n---\n"
        )
        refused = server.client.post("/agents/keyed/run")
        assert (refused.status, "GOOGLE_API_KEY" in refused.body["detail"]) == (422, True)
        (server.workspace / ".env").write_text("GOOGLE_API_KEY=a-key\n")
        assert server.client.post("/agents/keyed/run").status == 200

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

    @pytest.mark.parametrize(
        ("sent", "status"),
        [
            (b"", 200),
            (b"{}", 200),
            (b"null", 200),
            (b"[]", 422),
            (b'{"a": 1, "a": 1}', 422),
            (b"{", 422),
            (b"\xff", 400),
        ],
    )
    def test_a_route_without_a_body_takes_an_empty_one(self, server: Server, sent: bytes, status: int) -> None:
        assert server.client.request("POST", "/agents/reload", raw=sent).status == status
        refused = server.client.request("POST", "/executions/999/retry", raw=sent).status
        assert refused == (404 if status == 200 else status)

    def test_a_whole_execution(self, server: Server) -> None:
        execution = run(server.client)
        detail = wait_for(server.client, execution, "waiting")
        (request,) = detail["pending"]
        assert server.client.get(f"/executions/{execution}/pending").body["request_id"] == request["request_id"]
        assert [r["request_id"] for r in server.client.get("/pending").body] == [request["request_id"]]
        assert respond(server.client, execution, {"approved": True}).body == {
            "status": "resuming",
            "execution_id": execution,
            "request_id": request["request_id"],
            "message": request["message"],
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

    def test_the_scheduler_says_that_it_has_nothing_to_do(self, server: Server) -> None:
        assert server.client.get("/scheduler").body == {"status": "running", "jobs": []}
        assert server.client.get("/schedule").body == server.client.get("/firings").body == []

    def test_openapi_is_complete(self, server: Server) -> None:
        api = server.client.get("/openapi.json").body
        routes = {(method, path) for path, methods in api["paths"].items() for method in methods}
        assert len(routes) >= 21
        for path, methods in api["paths"].items():
            for method, route in methods.items():
                assert route.get("summary"), (method, path)
                assert route.get("description"), (method, path)
                assert any(status.startswith("2") for status in route["responses"]), (method, path)
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

    def test_an_answer_that_says_two_things_is_none(self, server: Server, asking: World) -> None:
        execution = run(server.client)
        request = wait_for(server.client, execution, "waiting")["pending"][0]["request_id"]
        raw = f'{{"request_id": "{request}", "response": {{"approved": false, "approved": true}}}}'.encode()
        refused = server.client.request("POST", f"/executions/{execution}/respond", raw=raw)
        assert (refused.status, "'approved' comes twice" in refused.body["detail"]) == (422, True)
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
        assert (late.body["outcome"], late.body["answered_by"]) == ("approved", "http:ann")
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

    def test_none_named_and_not_shown_to_who_answers(self, server: Server) -> None:
        (server.workspace / "agents/_config/scripts/worker.yaml").write_text(
            "conversations: [{turns: [{calls: [{name: danger, args: {key: A}}]}, {calls: [{name: danger, args: {key: B}}]},"
            " {calls: [{name: danger, args: {key: C}}]}, {text: E}]}]"
        )
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        first = respond(server.client, execution, {"approved": True}, by="ann")
        assert (first.status, first.body["request_id"]) == (200, f"{execution}-0.0")
        second = next_request(server.client, execution, f"{execution}-1.0")
        unseen = respond(server.client, execution, {"approved": True}, by="ann")
        assert (unseen.status, unseen.body["open"]) == (409, [f"{execution}-1.0"])
        assert unseen.body["requests"][0]["tool_args"] == second["tool_args"] == {"key": "B"}
        assert respond(server.client, execution, {"approved": True}, by="bob").status == 409
        again = respond(server.client, execution, {"approved": True}, by="ann")
        assert (again.status, again.body["message"]) == (200, 'Confirm danger {"key": "B"}')
        third = next_request(server.client, execution, f"{execution}-2.0")
        assert server.client.get("/pending?by=bob").body[-1]["request_id"] == third["request_id"]
        assert respond(server.client, execution, {"approved": True}, by="ann").status == 409
        assert respond(server.client, execution, {"approved": True}, by="bob").status == 200
        wait_for(server.client, execution, "success")


def next_request(client: Client, execution: int, request_id: str) -> dict[str, Any]:
    """The open request of this id, shown to nobody with a name."""

    found: list[dict[str, Any]] = []

    def is_open() -> bool:
        pending = client.get(f"/executions/{execution}").body["pending"]
        found[:] = [request for request in pending if request["request_id"] == request_id]
        return bool(found)

    until(is_open)
    return found[0]


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
            ("POST", "/agents/worker/run", b'{"message": "a", "message": "b"}', 422),
            ("POST", "/agents/worker/run", b'{"message": "\xff"}', 400),
            ("POST", "/agents/worker/run", b'{"args": "x"}', 422),
            ("POST", "/agents/worker/run", b'{"message": "' + b"x" * 2**20 + b'"}', 413),
            ("POST", "/executions/1/respond", b"", 422),
            ("POST", "/executions/1/respond", b'{"response": {}}', 404),
            ("GET", "/executions/abc", None, 422),
            ("DELETE", "/executions/1.0", None, 422),
            ("GET", "/executions/1_0", None, 422),
            ("GET", "/executions/%201", None, 422),
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

    @pytest.mark.parametrize(
        "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    )
    def test_a_body_that_is_not_sent_as_json_is_told_so(self, server: Server, kind: str) -> None:
        for path in ("/agents/worker/run", "/executions/1/respond"):
            answer = server.client.request(
                "POST", path, raw=b'{"response": {"approved": true}}', headers={"Content-Type": kind}
            )
            assert answer.status in (400, 422), answer
            assert answer.body["detail"]
        assert server.client.get("/executions").body == []


class TestHostileRequests:
    @pytest.mark.parametrize(
        "raw",
        [
            rb'{"message": "\ud800"}',
            rb'{"args": ["\udfff"]}',
            rb'{"session_id": "\ud800"}',
            b'{"session_id": ""}',
            b'{"message": NaN}',
            b'{"message": "\xff"}',
            b"[" * 100_000,
            b'{"message": 1' + b"0" * 5000 + b"}",
            b"null x",
        ],
        ids=lambda raw: repr(raw[:24]),
    )
    def test_of_runs(self, server: Server, raw: bytes) -> None:
        answer = server.client.request("POST", "/agents/worker/run", raw=raw)
        assert answer.status in (400, 422), answer
        assert answer.body["detail"]
        assert server.client.get("/executions").body == []

    @pytest.mark.parametrize(
        "raw",
        [
            rb'{"response": {"approved": true}, "by": "\ud800"}',
            b'{"response": {"approved": true}, "by": ""}',
            b'{"response": {"approved": true}, "by": "' + b"x" * 201 + b'"}',
            rb'{"response": {"approved": false, "reason": "\ud800"}}',
            b'{"response": {"approved": true, "args": {"key": Infinity}}}',
            b'{"response": {"approved": true, "args": {"key": 1e999}}}',
            b'{"response": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001,
            rb'{"response": {"approved": true}, "request_id": "\u0000"}',
        ],
        ids=lambda raw: repr(raw[:60]),
    )
    def test_of_answers(self, server: Server, raw: bytes) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        answer = server.client.request("POST", f"/executions/{execution}/respond", raw=raw)
        assert answer.status in (400, 404, 422), answer
        assert server.client.get(f"/executions/{execution}").body["status"] == "waiting"

    def test_who_answers_is_kept_and_never_obeyed(self, server: Server, asking: World) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        by = "\x1b[2Jann\u202e\x00"
        assert respond(server.client, execution, {"approved": True}, by=by).status == 200
        wait_for(server.client, execution, "success")
        assert server.client.get(f"/executions/{execution}/requests").body[0]["answered_by"] == f"http:{by}"
        shown = asking.cli("logs", "-e", str(execution)).out
        assert "ann" in shown
        assert not {"\x1b", "\u202e", "\x00"} & set(shown)

    @pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PATCH"])
    def test_other_methods_are_405(self, server: Server, method: str) -> None:
        assert server.client.request(method, "/agents").status == 405

    @pytest.mark.parametrize("name", ["a%2Fb", "..%2F..%2Fetc", "%00", "%ED%A0%80", "x" * 3000])
    def test_names_that_no_agent_has_are_404(self, server: Server, name: str) -> None:
        assert server.client.get(f"/agents/{name}").status == 404
        assert server.client.post(f"/agents/{name}/run").status == 404

    def test_agents_called_like_routes(self, server: Server) -> None:
        folder = server.workspace / "agents"
        text = (folder / "worker.md").read_text()
        for name in ("invalid", "reload"):
            (folder / f"{name}.md").write_text(text.replace("name: worker\n", f"name: {name}\n", 1))
        assert server.client.get("/agents/invalid").body == []
        assert server.client.get("/agents/Invalid").body["name"] == "invalid"
        assert server.client.get("/agents/reload").body["name"] == "reload"
        for name in ("invalid", "reload"):
            wait_for(server.client, run(server.client, agent=name), "waiting")
            assert len(server.client.get(f"/agents/{name}/runs").body) == 1

    def test_an_overdue_request_is_never_shown_as_open(self, server: Server) -> None:
        agent = server.workspace / "agents/worker.md"
        agent.write_text(agent.read_text().replace("confirm: [danger]", "confirm: [danger]\nconfirm_timeout: 1s"))
        execution = run(server.client)
        deadline = datetime.fromisoformat(wait_for(server.client, execution, "waiting")["pending"][0]["expires_at"])
        until(lambda: datetime.now(UTC) >= deadline)
        assert server.client.get("/pending").body == []
        assert server.client.get(f"/executions/{execution}").body["pending"] == []
        late = respond(server.client, execution, {"approved": True})
        assert (late.status, late.body["outcome"], late.body["answered_by"]) == (409, "expired", "timeout")

    def test_ten_cancels_at_once(self, server: Server) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda _: server.client.request("DELETE", f"/executions/{execution}"), range(10)))
        assert {answer.status for answer in answers} == {200}
        assert {answer.body["status"] for answer in answers} <= {"aborted", "cancelling"}
        wait_for(server.client, execution, "aborted")
        log = server.client.get(f"/executions/{execution}/messages").body
        assert [entry["event_type"] for entry in log].count("complete") == 1


def test_a_run_without_money_is_refused_and_logged(server: Server) -> None:
    agent = server.workspace / "agents/poor.md"
    worker = (server.workspace / "agents/worker.md").read_text()
    agent.write_text(worker.replace("name: worker\n", "name: poor\nsettings: {max_cost_usd_per_day: 0}\n", 1))
    before = server.client.get("/executions?limit=1000").body
    refused = server.client.post("/agents/poor/run", {"session_id": "s"})
    assert (refused.status, "max_cost_usd_per_day is $0" in refused.body["detail"]) == (409, True)
    (logged,) = server.client.get("/refusals?agent=poor").body
    assert set(logged) == {"id", "agent_id", "trigger", "session_id", "kind", "reason", "timestamp"}
    assert (logged["agent_id"], logged["trigger"], logged["session_id"], logged["kind"]) == (
        "poor",
        "api",
        "s",
        "budget",
    )
    assert logged["reason"] == refused.body["detail"]
    assert server.client.get("/refusals?agent=worker").body == []
    assert server.client.get("/executions?limit=1000").body == before


class TestRetraction:
    def test_of_an_answer_that_its_call_has_not_acted_on(self, server: Server) -> None:
        """A second call of the message still runs, so the answered one has not started."""
        folder = server.workspace / "agents/_config"
        (folder / "tools/gates.py").write_text(GATES)
        agent = server.workspace / "agents/worker.md"
        agent.write_text(agent.read_text().replace("[effects]", "[effects, gates]"))
        turns = [{"calls": [{"name": "gated"}, {"name": "danger", "args": {"key": "A"}}]}, {"text": "End."}]
        (folder / "scripts/worker.yaml").write_text(json.dumps({"conversations": [{"turns": turns}]}))
        with server.client.stream("/events/stream") as events:
            execution = run(server.client)
            until_begun(server.workspace)
            asked = f"{execution}-0.1"
            respond(server.client, execution, {"approved": True}, asked)
            route = f"/executions/{execution}/requests/{asked}/answer"
            refused = server.client.request("DELETE", f"{route}?by=timeout")
            assert (refused.status, "names agentmd's own" in refused.body["detail"]) == (422, True)
            done = server.client.request("DELETE", f"{route}?by=bob")
            again = f"{asked}-again1"
            assert (done.status, done.body) == (
                200,
                {
                    "status": "retracted",
                    "execution_id": execution,
                    "request_id": asked,
                    "retracted_by": "http:bob",
                    "retracted_at": done.body["retracted_at"],
                    "replaced_by": again,
                },
            )
            assert server.client.request("DELETE", route).body == done.body
            (told,) = take(events, 1, "answer_retracted")
            assert (told.data["request_id"], told.data["replaced_by"]) == (asked, again)
        old, new = server.client.get(f"/executions/{execution}/requests").body
        assert (old["outcome"], old["answer"], old["answered_by"]) == ("retracted", {"approved": True}, "api")
        assert (old["retracted_by"], old["replaced_by"], new["replaces"]) == ("http:bob", again, asked)
        assert (new["request_id"], new["outcome"], new["expires_at"]) == (again, None, old["expires_at"])
        for body in ({"request_id": asked, "response": {"approved": True}}, {"response": {"approved": False}}):
            conflict = server.client.post(f"/executions/{execution}/respond", body)
            assert (conflict.status, conflict.body["outcome"]) == (409, "retracted")
            assert (conflict.body["replaced_by"], conflict.body["retracted_by"]) == (again, "http:bob")
        open_gate(server.workspace)
        wait_for(server.client, execution, "waiting")
        respond(server.client, execution, {"approved": False}, again)
        wait_for(server.client, execution, "success")
        with server.client.stream(f"/executions/{execution}/stream") as stream:
            names = [event.event for event in stream]
        assert names == [
            *("system", "human", "ai", "tool_call", "tool_call", "interrupt", "resumed", "retracted", "interrupt"),
            *("tool_result", "waiting", "resumed", "tool_result", "ai", "final_answer", "complete"),
        ]
        assert not (server.workspace / "world.log").exists()

    def test_what_cannot_be_retracted(self, server: Server) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        route = f"/executions/{execution}/requests/{execution}-0.0/answer"
        assert server.client.request("DELETE", route).status == 409
        assert server.client.request("DELETE", f"/executions/{execution}/requests/{execution}-0/answer").status == 404
        assert server.client.request("DELETE", f"/executions/99/requests/{execution}-0.0/answer").status == 404
        respond(server.client, execution, {"approved": True})
        wait_for(server.client, execution, "success")
        late = server.client.request("DELETE", route)
        assert (late.status, "went on with it" in late.body["detail"]) == (409, True)

"""A server that is started, stopped, killed and met by other processes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.support.server import SERVED_SCRIPT, Server, respond, run, take, wait_for
from tests.support.waiting import until
from tests.support.world import World


class TestLife:
    def test_a_killed_server_comes_back_to_what_waited(self, asking: World) -> None:
        with Server(asking.workspace) as first:
            execution = run(first.client)
            wait_for(first.client, execution, "waiting")
            with first.client.stream(f"/executions/{execution}/stream") as events:
                seen = take(events, 6)
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
        (asking.workspace / "agents/_config/scripts/worker.yaml").write_text(SERVED_SCRIPT.replace("delay: 60s, ", ""))
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
                take(events, 2)
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

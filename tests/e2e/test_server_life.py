"""A server that is started, stopped, killed and met by other processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_md.api.address import ServerLock
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from tests.support.forked_terminal import ForkedTerminal
from tests.support.server import SERVED_SCRIPT, Server, respond, run, take, wait_for
from tests.support.waiting import until
from tests.support.world import World

SLOW_TOOLS = '''
import asyncio
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
async def danger(seconds: int) -> str:
    """Takes its time."""
    (context().workspace / f"began-{seconds}").touch()
    await asyncio.sleep(seconds)
    return "done"
'''


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
        deadline = datetime.fromisoformat(asked["expires_at"])
        until(lambda: datetime.now(UTC) > deadline)
        with Server(asking.workspace) as second:
            wait_for(second.client, execution, "success")
            (request,) = second.client.get(f"/executions/{execution}/requests").body
            assert (request["outcome"], request["answered_by"]) == ("expired", "timeout")
            log = second.client.get(f"/executions/{execution}/messages").body
            assert any(e["message"] == "danger ← Action denied by user (timeout)" for e in log)
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
                assert time.monotonic() - begun < 5  # not the minute that the model takes
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
            assert shown.out.endswith("\n0 executions queued or running, 0 wait for an answer\n")
        finally:
            assert asking.cli("stop").code == 0
        assert asking.cli("status").code == 1
        assert asking.cli("stop").code == 0

    def test_the_command_line_with_a_live_server(self, server: Server, asking: World) -> None:
        handed = asking.cli("run", "-d", "worker")
        assert handed.code == 0
        assert handed.out == "Execution 1 started; the server drives it. `agentmd logs -f -e 1` follows it\n"
        wait_for(server.client, 1, "waiting")
        answered = asking.cli("respond", "1", "--yes")
        assert answered.code == 0
        wait_for(server.client, 1, "success")
        assert asking.effects()["A"] == 1
        lines = [
            json.loads(line) for line in asking.cli("run", "-d", "--json", "worker", "-m", "slow").out.splitlines()
        ]
        assert (lines[0]["event"], lines[-1]["event"], lines[-1]["to"]) == (
            "execution_started",
            "handed_over",
            "the server",
        )
        wait_for(server.client, 2, "running")
        assert asking.cli("cancel", "2").code == 0
        wait_for(server.client, 2, "aborted")

    def test_run_detached_without_a_server(self, asking: World) -> None:
        assert asking.cli("run", "-d", "worker").code == 0
        until(lambda: asking.status() == "waiting")
        assert asking.cli("status").code == 1
        assert asking.cli("respond", "1", "--yes").code == 0


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_by_a_signal(self, server: Server, number: signal.Signals) -> None:
        assert server.stop(number).code == 0

    def test_over_http(self, server: Server) -> None:
        assert server.client.post("/shutdown").body == {"status": "stopping"}
        assert server.process.wait().code == 0

    def test_a_step_may_end_and_a_tool_that_does_not_is_cut(self, asking: World) -> None:
        (asking.workspace / "agents/_config/tools/effects.py").write_text(SLOW_TOOLS)
        turns = [{"calls": [{"name": "danger", "args": {"seconds": "NUMBER"}}]}, {"text": "End."}]
        agent = asking.workspace / "agents/worker.md"
        agent.write_text(agent.read_text().replace("confirm: [danger]", "confirm: []\non_pending: parallel"))
        script = asking.workspace / "agents/_config/scripts/worker.yaml"
        with Server(asking.workspace) as server:
            ids = []
            for seconds in (1, 60):
                script.write_text(json.dumps({"conversations": [{"turns": turns}]}).replace('"NUMBER"', str(seconds)))
                ids.append(run(server.client))
                until(lambda: (asking.workspace / f"began-{seconds}").exists())  # noqa: B023
            assert server.stop().code == 0
        store = asking.store()
        statuses = [store.execution(ExecutionId(number)).status for number in ids]
        store.close()
        assert statuses == [Status.SUCCESS, Status.QUEUED]
        with Server(asking.workspace) as server:
            wait_for(server.client, ids[1], "success")
            log = server.client.get(f"/executions/{ids[1]}/messages").body
        assert any("may have run" in entry["message"] for entry in log if entry["event_type"] == "tool_result")

    def test_stop_waits_for_a_server_that_starts(self, asking: World) -> None:
        (asking.workspace / ".agentmd").mkdir(mode=0o700)
        ready, tell = os.pipe()
        starting = os.fork()
        if starting == 0:  # has the lock, and does not answer yet
            ServerLock(asking.workspace / ".agentmd")
            os.write(tell, b"x")
            signal.pause()
        os.read(ready, 1)
        stopping = asking.cli.start("stop")
        assert asking.cli("status").code == 1
        assert not stopping.ended
        os.kill(starting, signal.SIGKILL)
        os.waitpid(starting, 0)
        assert stopping.wait().code == 0
        os.close(ready)
        os.close(tell)


class TestStarting:
    def test_two_at_once(self, asking: World) -> None:
        racers = [asking.cli.start("start") for _ in range(4)]
        until(lambda: sum(racer.ended for racer in racers) == 3)
        (winner,) = [racer for racer in racers if not racer.ended]
        until(lambda: asking.cli("status").code == 0)
        assert [racer.wait().code for racer in racers if racer is not winner] == [2, 2, 2]
        winner.kill(signal.SIGTERM)
        assert winner.wait().code == 0

    def test_beside_what_a_dead_server_left(self, asking: World) -> None:
        with Server(asking.workspace) as first:
            first.kill()
            assert first.address["pid"] == first.process.pid
            assert Path(first.address["socket"]).exists()
        assert asking.cli("status").code == 1
        assert asking.cli("run", "-d", "worker").code == 0
        until(lambda: asking.status() == "waiting")
        with Server(asking.workspace) as second:
            assert second.client.get("/health").status == 200

    def test_in_a_folder_with_a_long_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
        (tmp_path / "run").mkdir()
        world = World(tmp_path / ("long" * 25) / "ws")
        with Server(world.workspace) as server:
            place = Path(server.address["socket"])
            assert place.is_relative_to(tmp_path / "run")
            assert place.parent.stat().st_mode & 0o777 == 0o700
            assert place.stat().st_mode & 0o777 == 0o600
            assert world.cli("status").code == 0
            assert world.cli("stop").code == 0

    def test_the_socket_and_the_files_are_private(self, server: Server) -> None:
        for name in ("server.sock", "server.json", "server.lock", "agentmd.db"):
            assert (server.state / name).stat().st_mode & 0o077 == 0, name

    @pytest.mark.parametrize("detach", [(), ("-d",)], ids=["foreground", "detached"])
    def test_on_a_port_that_is_taken(self, asking: World, detach: tuple[str, ...]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            failed = asking.cli("start", "--port", port, *detach)
        assert failed.code == 2
        assert f"127.0.0.1:{port} cannot be listened on" in failed.err
        assert asking.cli("status").code == 1

    @pytest.mark.parametrize("detach", [(), ("-d",)], ids=["foreground", "detached"])
    def test_with_a_wrong_configuration(self, asking: World, detach: tuple[str, ...]) -> None:
        (asking.workspace / "config.yaml").write_text("server: {prot: 1}\n")
        failed = asking.cli("start", *detach)
        assert failed.code == 2
        assert "prot" in failed.err

    def test_with_a_store_that_cannot_be_used(self, asking: World) -> None:
        (asking.workspace / ".agentmd").mkdir()
        (asking.workspace / ".agentmd/agentmd.db").write_text("no database, but long enough to be taken for one" * 9)
        failed = asking.cli("start", "-d")
        assert failed.code == 1
        assert "agentmd.db" in failed.err


class TestWithOthers:
    def test_a_command_that_stands_still_keeps_its_execution(self, server: Server, asking: World) -> None:
        (asking.workspace / "agents/_config/tools/effects.py").write_text(SLOW_TOOLS)
        agent = asking.workspace / "agents/worker.md"
        agent.write_text(agent.read_text().replace("confirm: [danger]", "confirm: []"))
        (asking.workspace / "agents/_config/scripts/worker.yaml").write_text(
            "conversations: [{turns: [{calls: [{name: danger, args: {seconds: 60}}]}]}]"
        )
        running = asking.cli.start("run", "worker")
        until(lambda: (asking.workspace / "began-60").exists())
        running.kill(signal.SIGSTOP)
        other = run(server.client, {"session_id": "other"})
        wait_for(server.client, other, "running")
        assert server.client.get("/executions/1").body["status"] == "running"
        running.kill(signal.SIGCONT)
        assert server.client.request("DELETE", "/executions/1").body["status"] == "cancelling"
        assert running.wait().code == 4

    def test_a_command_that_died_is_succeeded_by_the_server(self, server: Server, asking: World) -> None:
        running = asking.cli.start("run", "worker", "-m", "slow")
        until(lambda: asking.status() == "running")
        (asking.workspace / "agents/_config/scripts/worker.yaml").write_text(SERVED_SCRIPT.replace("delay: 60s, ", ""))
        running.kill()
        running.wait()
        assert wait_for(server.client, 1, "success")["output_data"] == "Late."

    def test_a_terminal_that_answers_follows_the_server(self, server: Server, asking: World) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        with ForkedTerminal(["-w", str(asking.workspace), "respond", str(execution)]) as terminal:
            terminal.expect("? Confirm danger")
            terminal.send_line("y")
            assert terminal.exit_code() == 0
            assert "End." in terminal.screen
        store = asking.store()
        found = store.execution(ExecutionId(execution))
        store.close()
        assert found.epoch == 2
        assert asking.effects() == {"A": 1}

    def test_at_most_so_many_at_once_and_who_waits_takes_no_place(self, asking: World) -> None:
        (asking.workspace / "config.yaml").write_text("server: {max_concurrent: 2}\n")
        with Server(asking.workspace) as server:
            waiting = [run(server.client, {"session_id": f"w{number}"}) for number in range(4)]
            for execution in waiting:
                wait_for(server.client, execution, "waiting")
            slow = [run(server.client, {"session_id": f"s{n}", "message": "slow"}) for n in range(3)]
            for execution in slow[:2]:
                wait_for(server.client, execution, "running")
            respond(server.client, waiting[0], {"approved": True})
            statuses = {n: server.client.get(f"/executions/{n}").body["status"] for n in (slow[2], waiting[0])}
            assert set(statuses.values()) == {"queued"}
            server.client.request("DELETE", f"/executions/{slow[0]}")
            wait_for(server.client, waiting[0], "success")
            wait_for(server.client, slow[2], "running")

"""Server-sent events of a real server process: whole, live, and resumed anywhere."""

from __future__ import annotations

import json
import os
import signal
import socket
import time

import pytest

from tests.support.gates import GATES, open_gate
from tests.support.server import Server, respond, run, take, wait_for
from tests.support.waiting import until
from tests.support.world import World


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
                seen += [e.id for e in take(events, cut) if e.id is not None]
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
            first = take(events, 2)
        assert [e.event for e in first] == ["resync", "system"]

    def test_of_an_execution_that_another_process_drives(self, server: Server, asking: World) -> None:
        started = asking.cli("run", "worker")
        assert started.code == 3
        with server.client.stream("/executions/1/stream") as events:
            seen = take(events, 6)
            assert seen[-1].event == "waiting"
            assert asking.cli("respond", "1", "--yes").code == 0
            assert [e.event for e in events][-1] == "complete"

    def test_everything(self, server: Server) -> None:
        with server.client.stream("/events/stream") as events:
            assert take(events, 1)[0].event == "heartbeat"
            execution = run(server.client)
            started, waiting = take(events, 2)
            assert (started.event, started.data["agent_name"], started.data["trigger"]) == (
                "execution_started",
                "worker",
                "api",
            )
            assert (waiting.event, waiting.data["kind"]) == ("execution_waiting", "confirm")
            respond(server.client, execution, {"approved": True}, waiting.data["request_id"])
            resumed, completed = take(events, 2)
        assert resumed.event == "execution_resumed"
        assert (completed.event, completed.data["status"]) == ("execution_completed", "success")
        with server.client.stream("/events/stream", str(started.id)) as events:
            again = [e.event for e in take(events, 4) if e.event != "heartbeat"]
        assert again == ["execution_waiting", "execution_resumed", "execution_completed"]

    @pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.stress)])
    def test_idle_streams_harm_nobody(self, server: Server, count: int) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        sockets = []
        for _ in range(count):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(server.client.socket_path))
            client.sendall(f"GET /executions/{execution}/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            sockets.append(client)
        until(lambda: server.client.get("/info").body["active_streams"] == count)
        respond(server.client, execution, {"approved": True})
        wait_for(server.client, execution, "success")
        for client in sockets:
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
            client.close()
        until(lambda: server.client.get("/info").body["active_streams"] == 0)
        assert server.client.get("/health").status == 200

    def test_pieces_of_a_message_come_before_it_is_whole(self, server: Server) -> None:
        agents = server.workspace / "agents"
        (agents / "_config/tools/gates.py").write_text(GATES)
        (agents / "worker.md").write_text((agents / "worker.md").read_text().replace("[effects]", "[effects, gates]"))
        (agents / "_config/scripts/worker.yaml").write_text(
            "conversations: [{turns: [{calls: [{name: gated}]}, {text: 'One two three four five six.'}]}]"
        )
        execution = run(server.client)
        with server.client.stream(f"/executions/{execution}/stream") as events:
            before = [next(events)]
            while before[-1].event != "tool_call":
                before.append(next(events))
            open_gate(server.workspace)  # from here on the stream is live
            seen = list(events)
        assert "delta" not in [event.event for event in before]
        pieces = [event for event in seen if event.event == "delta"]
        assert [event.id for event in pieces] == [None] * len(pieces)
        assert "".join(event.data["text"] for event in pieces) == "One two three four five six."
        names = [event.event for event in seen]
        assert len(names) - names[::-1].index("delta") <= names.index("ai")

    def test_the_position_of_another_execution_is_not_known(self, server: Server) -> None:
        first = run(server.client, {"session_id": "a"})
        wait_for(server.client, first, "waiting")
        other = run(server.client, {"session_id": "b"})
        wait_for(server.client, other, "waiting")
        foreign = server.client.get(f"/executions/{first}/messages").body[2]["id"]
        with server.client.stream(f"/executions/{other}/stream", str(foreign)) as events:
            assert [event.event for event in take(events, 2)] == ["resync", "system"]

    def test_after_the_end_nothing_more_comes(self, server: Server) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        server.client.request("DELETE", f"/executions/{execution}")
        last = server.client.get(f"/executions/{execution}/messages").body[-1]["id"]
        with server.client.stream(f"/executions/{execution}/stream", str(last)) as events:
            assert list(events) == []

    def test_a_reader_that_stands_still_stops_nobody(self, server: Server) -> None:
        turns = [{"text": "x" * 100_000, "calls": [{"name": "plain", "args": {"key": f"K{n}"}}]} for n in range(8)]
        (server.workspace / "agents/_config/scripts/worker.yaml").write_text(
            json.dumps({"conversations": [{"turns": [*turns, {"text": "End."}]}]})
        )
        execution = run(server.client)
        begun, began = os.pipe()
        pid = os.fork()
        if pid == 0:
            with server.client.stream(f"/executions/{execution}/stream") as events:
                take(events, 1)
                os.write(began, b"x")
                os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        try:
            os.read(begun, 1)
            assert wait_for(server.client, execution, "success")["output_data"] == "End."
            assert server.client.get("/info").body["active_streams"] == 1
            started = time.monotonic()
            assert server.stop().code == 0
            assert time.monotonic() - started < 5  # not for as long as the reader stands still, which is for good
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(begun)
            os.close(began)

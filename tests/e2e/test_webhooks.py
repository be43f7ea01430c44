"""Webhooks of a real server: what it ran, what a terminal ran, and what was to be told when it was killed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.receiver import Receiver, answer, close_early, receiver
from tests.support.server import Server, respond, run
from tests.support.waiting import until
from tests.support.world import World


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


@pytest.fixture
def telling(asking: World, there: Receiver) -> World:
    """A workspace whose agent tells the receiver of everything, at once."""
    agent = asking.workspace / "agents/worker.md"
    notify = f"notify: [{{url: '{there.url}', token: '${{HOOK_TOKEN}}'}}]"
    agent.write_text(agent.read_text().replace("tools:", f"{notify}\ntools:"))
    (asking.workspace / ".env").write_text("HOOK_TOKEN=abc\n")
    config = "webhooks: {interrupt_delay: 0s}\nhttp: {allow_hosts: [127.0.0.1]}\n"
    (asking.workspace / "config.yaml").write_text(config)
    return asking


def events(there: Receiver) -> list[str]:
    return [came.json["event"] for came in there.received]


def test_a_turn_that_asks_and_ends(telling: World, there: Receiver) -> None:
    with Server(telling.workspace) as server:
        execution = run(server.client)
        until(lambda: events(there) == ["interrupt.requested"])
        (asked,) = there.received[0].json["interrupts"]
        assert asked["payload"] == {"type": "tool_approval", "tool_name": "danger", "tool_args": {"key": "A"}}
        assert there.received[0].headers["authorization"] == "Bearer abc"
        assert respond(server.client, execution, {"approved": True}, asked["interrupt_id"]).status == 200
        until(lambda: len(there.received) == 2)
        assert there.received[1].json["response"] == {"role": "assistant", "content": "End."}


def test_what_a_terminal_did_is_told_by_the_server_that_comes_and_again_if_that_is_killed(
    telling: World, there: Receiver
) -> None:
    assert telling.cli("run", "worker").code == 3
    assert telling.cli("respond", "1", "--yes", "--no-wait").code == 0
    assert events(there) == ["interrupt.requested"]
    there.received.clear()
    there.behaviours = [close_early]
    with Server(telling.workspace) as server:
        until(lambda: there.received)
        server.kill()
    with Server(telling.workspace):
        until(lambda: len(there.received) == 2, patience=20)
    assert events(there) == ["turn.completed"] * 2
    assert len({came.json["event_id"] for came in there.received}) == 1
    log = telling.workspace / ".agentmd/agentmd.log"
    assert "abc" not in log.read_text()
    assert there.url not in log.read_text()


def test_without_a_server_commands_tell_of_what_they_drove(telling: World, there: Receiver) -> None:
    asked = telling.cli("run", "worker")
    assert asked.code == 3
    assert "no server runs here: `notify` of worker is told by the commands that drive it" in asked.err
    assert events(there) == ["interrupt.requested"]
    assert telling.cli("respond", "1", "--yes").code == 0
    assert events(there) == ["interrupt.requested", "turn.completed"]
    assert there.received[1].json["execution_id"] == 1


def test_without_a_server_a_cancelled_execution_is_told_too(telling: World, there: Receiver) -> None:
    assert telling.cli("run", "worker").code == 3
    assert telling.cli("cancel", "1").code == 0
    assert events(there) == ["interrupt.requested", "turn.failed"]


def test_with_a_server_only_that_one_tells(telling: World, there: Receiver) -> None:
    with Server(telling.workspace):
        ended = telling.cli("run", "worker")
        assert (ended.code, "no server runs here" in ended.err) == (3, False)
        until(lambda: events(there) == ["interrupt.requested"])


def test_what_a_command_could_not_deliver_is_said_and_told_by_the_next_one(telling: World, there: Receiver) -> None:
    there.behaviours = [answer(503, Retry_After="30")]
    ended = telling.cli("run", "worker")
    assert ended.code == 3
    assert "1 notification could not be delivered yet" in ended.err
    assert len(there.received) == 1
    assert telling.cli("run", "worker").code == 2  # it waits, and nothing was driven
    assert telling.cli("respond", "1", "--no").code == 0
    assert events(there)[1:] == ["turn.completed"]  # what was asked is decided, and is not told any more


def test_a_private_address_is_named_with_what_to_do_and_not_waited_for(telling: World, there: Receiver) -> None:
    (telling.workspace / "config.yaml").unlink()
    ended = telling.cli("run", "worker")
    assert ended.code == 3
    assert "1 notification could not be delivered: 127.0.0.1 is no address of the public internet" in ended.err
    assert "`http.allow_hosts` in config.yaml" in ended.err
    assert "yet" not in ended.err
    assert there.received == []


def test_that_no_server_runs_is_said_by_validate_and_explain(telling: World) -> None:
    for command in ("validate", "explain"):
        assert "no server runs here: `notify` of worker" in " ".join(telling.cli(command, "worker").out.split())
    with Server(telling.workspace):
        for command in ("validate", "explain"):
            assert "no server runs here" not in " ".join(telling.cli(command, "worker").out.split())


def test_a_private_address_is_not_reached_and_the_server_goes_on(telling: World, there: Receiver) -> None:
    (telling.workspace / "config.yaml").write_text("webhooks: {interrupt_delay: 0s}\n")
    with Server(telling.workspace) as server:
        execution = run(server.client)
        log = telling.workspace / ".agentmd/agentmd.log"
        until(lambda: log.exists() and "nothing was sent" in log.read_text())
        until(lambda: server.client.get(f"/executions/{execution}").body["status"] == "waiting")
        ended = server.stop()
    assert ended.code == 0
    assert there.received == []


def test_the_webhook_of_a_message(asking: World, there: Receiver) -> None:
    (asking.workspace / "config.yaml").write_text("http: {allow_hosts: [127.0.0.1]}\n")
    with Server(asking.workspace) as server:
        session = server.client.post("/agents/worker/sessions").body["session_id"]
        path = f"/agents/worker/sessions/{session}"
        hook = {"url": there.url, "token": "canary-token", "secret": "canary-secret", "include_messages": True}
        assert server.client.post(f"{path}/messages", {"content": "Go", "webhook": hook}).status == 202
        until(lambda: server.client.get(path).body["status"] == "interrupted")
        (asked,) = server.client.get(path).body["interrupts"]
        answer = {"interrupt_id": asked["interrupt_id"], "value": {"approved": True}}
        assert server.client.post(f"{path}/resume", answer).status == 200
        until(lambda: there.received)
        server.stop()
    (came,) = there.received  # the question was answered before its delay was over
    assert came.json["event"] == "turn.completed"
    assert came.json["session_id"] == session
    assert came.json["messages"][0] == {"role": "user", "content": "Go"}
    assert came.json["messages"][-1] == came.json["response"]
    assert came.headers["authorization"] == "Bearer canary-token"
    assert came.headers["webhook-signature"].startswith("v1,")
    for file in (asking.workspace / ".agentmd").glob("*.log*"):
        assert "canary" not in file.read_text()


@pytest.mark.parametrize("url", ["ftp://example.com", "https://ann:canary@example.com/", "nowhere"])
def test_a_webhook_that_cannot_be_used_begins_no_turn(server: Server, url: str) -> None:
    session = server.client.post("/agents/worker/sessions").body["session_id"]
    path = f"/agents/worker/sessions/{session}"
    refused = server.client.post(f"{path}/messages", {"content": "Go", "webhook": {"url": url}})
    assert (refused.status, "canary" in str(refused.body)) == (422, False)
    assert server.client.get(path).body["status"] == "idle"

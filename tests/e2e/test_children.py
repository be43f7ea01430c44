"""Agents that call agents, as whole programs: on a terminal, in a chat, by a server, over sessions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.chatting import say
from tests.support.server import Server, respond, run, take, wait_for
from tests.support.terminal import Terminal
from tests.support.waiting import until

DONE = {"text": "All done."}


def write_family(folder: AgentFolder) -> None:
    """A coordinator that calls two agents at once, each of which deletes a file, beside a deletion of its own."""
    calls = [call("run_agent", agent_name=name) for name in ("left", "right")]
    folder.agent(
        "coordinator", [{"calls": [*calls, call("file_delete", path="own.txt")]}, DONE], "agents: [left, right]"
    )
    for name in ("left", "right"):
        folder.agent(name, [{"calls": [call("file_delete", path=f"{name}.txt")]}, {"text": f"{name} is done."}])
    for name in ("left", "right", "own"):
        folder.file(f"{name}.txt")


@pytest.fixture
def family(tmp_path: Path) -> AgentFolder:
    folder = AgentFolder(tmp_path / "ws")
    write_family(folder)
    return folder


def answer_three(terminal: Terminal) -> None:
    """Answers whatever is asked: yes to all but to the deletion of `right.txt`."""
    for _ in range(3):
        shown = terminal.expect("[y/N]: ")
        terminal.send_line("n" if "right.txt" in shown.rpartition("Confirm")[2] else "y")


def check_story(folder: AgentFolder, root: int = 1) -> None:
    """Fails unless each call came to what was answered."""
    with folder.store() as store:
        members = store.family(ExecutionId(root))
        results = {member.agent: [found.result for found in store.calls(member.id)] for member in members}
    assert [member.status for member in members] == [Status.SUCCESS] * 3
    assert results["coordinator"] == ["left is done.", "right is done.", "File deleted: own.txt"]
    assert results["left"] == ["File deleted: left.txt"]
    assert results["right"] == ["Action denied by user"]
    assert [(folder.path / f"{name}.txt").exists() for name in ("left", "right", "own")] == [False, True, False]


def test_a_run_asks_the_questions_of_its_children_itself(family: AgentFolder) -> None:
    with family.terminal("run", "coordinator") as terminal:
        answer_three(terminal)
        terminal.expect("All done.")
        assert terminal.exit_code() == 0
        assert "coordinator > left" in terminal.shown
    check_story(family)
    told = family.cli("logs", "-e", "1").out
    assert "coordinator > left 📎 file_delete" in told
    assert "coordinator ⤶ right" in told


def test_a_chat_asks_the_questions_of_its_children_itself(family: AgentFolder) -> None:
    with family.terminal("chat", "coordinator") as terminal:
        say(terminal, "Go.")
        answer_three(terminal)
        terminal.expect("All done.")
        say(terminal, "/exit")
        assert terminal.exit_code() == 0
    check_story(family)


def test_without_a_terminal_one_answer_is_given_to_all(family: AgentFolder) -> None:
    left = family.cli("run", "coordinator")
    assert left.code == 3
    assert "? coordinator > left: Confirm file_delete" in left.err
    rows = json.loads(family.cli("pending", "--json").out)
    assert [row["execution_id"] for row in rows] == [1, 1, 1]
    assert sorted(len(row["path"]) for row in rows) == [1, 2, 2]
    child = next(row for row in rows if len(row["path"]) == 2)
    answered = family.cli("respond", str(child["path"][1]["execution_id"]), "--yes", "--request", child["request_id"])
    assert answered.code == 3, "by the number of the child"
    assert family.cli("respond", "1", "--no", "--all").code == 0
    assert sum((family.path / f"{name}.txt").exists() for name in ("left", "right", "own")) == 2


def test_on_ask_fail_ends_the_family(family: AgentFolder) -> None:
    assert family.cli("run", "coordinator", "--on-ask", "fail").code == 4
    with family.store() as store:
        assert {member.status for member in store.family(ExecutionId(1))} == {Status.ABORTED}


def test_a_cancelled_family_has_no_open_questions(family: AgentFolder) -> None:
    family.cli("run", "coordinator")
    assert "aborted" in family.cli("cancel", "1").out
    assert json.loads(family.cli("pending", "--json").out) == []
    with family.store() as store:
        assert {member.status for member in store.family(ExecutionId(1))} == {Status.ABORTED}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AgentFolder, Server]]:
    folder = AgentFolder(tmp_path_factory.mktemp("served") / "ws")
    write_family(folder)
    folder.file("config.yaml", "server: {max_concurrent: 1}\n")
    with Server(folder.path) as server:
        yield folder, server


def test_a_server_with_one_place_drives_the_family_and_is_killed_between_answers(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ws")
    write_family(folder)
    folder.file("config.yaml", "server: {max_concurrent: 1}\n")
    with Server(folder.path) as server:
        root = run(server.client, agent="coordinator")
        asked = all_three(server, root)
        server.kill()
    for path in (folder.path / ".agentmd").glob("agentmd_checkpoints.db*"):
        path.unlink()
    with Server(folder.path) as server:
        assert len(all_three(server, root)) == 3
        for request in asked:
            denied = request["tool_args"]["path"] == "right.txt"
            assert respond(server.client, root, {"approved": not denied}, request["request_id"]).status == 200
        assert wait_for(server.client, root, "success")["output_data"] == "All done."
    check_story(folder, root)


def all_three(server: Server, root: int) -> list[dict[str, Any]]:
    """The requests under the root, when all are open."""
    found: list[dict[str, Any]] = []

    def asked() -> bool:
        found[:] = server.client.get(f"/executions/{root}/requests").body
        return len(found) == 3 and server.client.get(f"/executions/{root}").body["status"] == "waiting"

    until(asked)
    assert {request["execution_id"] for request in found} == {root}
    return found


def test_the_stream_of_the_root_tells_of_its_children(served: tuple[AgentFolder, Server]) -> None:
    folder, server = served
    for name in ("left", "right", "own"):
        folder.file(f"{name}.txt")
    root = run(server.client, agent="coordinator")
    all_three(server, root)
    with server.client.stream(f"/executions/{root}/stream") as events:
        asked = take(events, 3, "interrupt")
    assert sorted(len(event.data["path"]) for event in asked) == [1, 2, 2]
    assert {event.data["execution_id"] for event in asked} == {root}
    told = [event["event_type"] for event in server.client.get(f"/executions/{root}/messages").body]
    assert told.count("child_started") == 2
    child = server.client.get(f"/executions/{root}/requests").body[-1]["path"][-1]["execution_id"]
    own = server.client.get(f"/executions/{child}/requests").body
    assert {request["execution_id"] for request in own} == {child}
    answer = server.client.request("DELETE", f"/executions/{root}")
    assert answer.body["status"] == "aborted"
    until(lambda: server.client.get(f"/executions/{child}").body["status"] == "aborted")


def test_a_session_is_interrupted_by_children_and_resumed(served: tuple[AgentFolder, Server]) -> None:
    folder, server = served
    for name in ("left", "right", "own"):
        folder.file(f"{name}.txt")
    base = "/agents/coordinator/sessions"
    session = server.client.post(base, {}).body["session_id"]
    assert server.client.post(f"{base}/{session}/messages", {"content": "Go."}).status == 202

    def interrupts() -> list[dict[str, Any]]:
        return server.client.get(f"{base}/{session}").body["interrupts"] or []

    until(lambda: len(interrupts()) == 3)
    paths = [[step["agent_id"] for step in interrupt.get("path", [])] for interrupt in interrupts()]
    assert sorted(paths) == [[], ["coordinator", "left"], ["coordinator", "right"]]
    for interrupt in interrupts():
        value = {"approved": interrupt["payload"]["tool_args"]["path"] != "right.txt"}
        body = {"interrupt_id": interrupt["interrupt_id"], "value": value}
        assert server.client.post(f"{base}/{session}/resume", body).status == 200
    until(lambda: server.client.get(f"{base}/{session}").body["status"] == "idle")
    assert server.client.get(f"{base}/{session}").body["response"]["content"] == "All done."
    with folder.store() as store:
        (root,) = store.executions(agent="coordinator", session_id=session)
    check_story(folder, root.id)


def test_a_terminal_keeps_its_family_from_the_server(served: tuple[AgentFolder, Server]) -> None:
    folder, _ = served
    for name in ("left", "right", "own"):
        folder.file(f"{name}.txt")
    with folder.terminal("run", "coordinator") as terminal:
        answer_three(terminal)
        terminal.expect("All done.")
        assert terminal.exit_code() == 0
    with folder.store() as store:
        root = store.executions(agent="coordinator", limit=1)[0]
    check_story(folder, root.id)

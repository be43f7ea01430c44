"""A call that may have run is found, and a human says what became of it."""

from __future__ import annotations

import json

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.server import Server


@pytest.fixture
def cut(folder: AgentFolder) -> AgentFolder:
    """Execution 1 was killed in the middle of a call and went on to its end; execution 2 knows all of its calls."""
    folder.tools("gates", GATES)
    folder.agent("payer", [{"calls": [call("gated")]}, {"text": "Done."}], "tools: [gates]")
    folder.agent("plain", [{"text": "Hello."}])
    run = folder.cli.start("run", "payer")
    until_begun(folder.path)
    run.kill()
    assert run.wait().killed
    open_gate(folder.path)
    ended = folder.cli("resume", "1")
    assert ended.code == 0
    assert ended.err.endswith("1 call of execution 1 may have run: agentmd logs -e 1\n")
    assert folder.cli("run", "plain").code == 0
    assert folder.execution().status is Status.SUCCESS
    return folder


def unknown(folder: AgentFolder) -> list[int]:
    return [item["id"] for item in json.loads(folder.cli("logs", "--unknown", "--json").out)]


def test_lists_have_a_mark_and_a_filter(cut: AgentFolder) -> None:
    listed = cut.cli("logs").out
    (line,) = [line for line in listed.splitlines() if "payer" in line]
    assert "success ⚠" in line
    assert listed.count("⚠") == 2
    assert "⚠ 1 call of execution 1 may have run: agentmd logs -e 1\n" in listed
    assert "success ⚠" in cut.cli("list").out
    assert [item["unknown_calls"] for item in json.loads(cut.cli("logs", "--json").out)] == [0, 1]
    assert unknown(cut) == [1]
    assert "plain" not in cut.cli("logs", "--unknown").out
    assert cut.cli("logs", "plain", "--unknown").out == "No call may have run without anybody knowing.\n"
    assert cut.cli("logs", "--unknown", "-e", "1").code == 2
    assert (
        "⚠ call 0.0 (gated) may have run: agentmd settle 1 0.0 --ran, or --not-run\n" in cut.cli("logs", "-e", "1").out
    )


def test_settled_by_a_human_it_is_known_with_who_and_when(cut: AgentFolder) -> None:
    done = cut.cli("settle", "1", "0.0", "--ran", "--note", "the \x1b[31mbank\nsays so")
    assert (done.code, done.out, done.err) == (0, f"Call 0.0 of execution 1 (gated) ran, says {login()}.\n", "")
    assert unknown(cut) == []
    assert "⚠" not in cut.cli("logs").out + cut.cli("list").out
    story = cut.cli("logs", "-e", "1").out
    assert f"  call 0.0 (gated) ran, says {login()} at 20" in story
    assert story.endswith(r": the \x1b[31mbank\nsays so" + "\n")
    again = cut.cli("settle", "1", "0.0", "--ran", "--note", "the \x1b[31mbank\nsays so")
    assert again.code == 0
    other = cut.cli("settle", "1", "0.0", "--not-run")
    assert (other.code, other.out) == (6, "")
    assert " ".join(other.err.split()).startswith(
        rf"agentmd: call 0.0 of execution 1 was settled as ran (the \x1b[31mbank says so) by {login()} at 20"
    )
    assert cut.execution().status is Status.SUCCESS


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["1", "0.0"], 2, "say what became of the call: --ran or --not-run"),
        (["1", "0.0", "--ran", "--not-run"], 2, "say what became of the call: --ran or --not-run"),
        (["1", "0.7", "--ran"], 2, "execution 1 has no call 0.7"),
        (["1", "0", "--ran"], 2, "is not the position of a call"),
        (["1", "0.0.0", "--ran"], 2, "is not the position of a call"),
        (["9", "0.0", "--ran"], 2, "there is no execution 9"),
        (["1", "0.0", "--ran", "--note", "x" * 4001], 2, "at most 4,000 are allowed"),
    ],
)
def test_what_cannot_be_settled_changes_nothing(
    cut: AgentFolder, arguments: list[str], code: int, message: str
) -> None:
    ended = cut.cli("settle", *arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in " ".join(ended.err.split())
    assert unknown(cut) == [1]


def test_over_http_as_at_the_command_line(cut: AgentFolder) -> None:
    with Server(cut.path) as server:
        route = "/executions/1/calls/0.0/settle"
        assert [x["id"] for x in server.client.get("/executions?unknown=true").body] == [1]
        assert [x["id"] for x in server.client.get("/executions?unknown=false").body] == [2]
        (found,) = server.client.get("/executions/1").body["may_have_run"]
        assert (found["position"], found["tool_name"], found["ran"]) == ("0.0", "gated", None)
        for body in (
            {},
            {"ran": "yes"},
            {"ran": None},
            {"ran": True, "nots": "x"},
            {"ran": True, "note": "x" * 4001},
            [],
        ):
            assert server.client.post(route, body).status == 422
        assert server.client.post("/executions/1/calls/first/settle", {"ran": True}).status == 422
        assert server.client.post("/executions/1/calls/0.1/settle", {"ran": True}).status == 404
        assert server.client.post("/executions/9/calls/0.0/settle", {"ran": True}).status == 404
        settled = server.client.post(route, {"ran": False, "note": "no mail came"})
        assert settled.status == 200
        assert (settled.body["ran"], settled.body["note"], settled.body["settled_by"]) == (False, "no mail came", "api")
        assert server.client.post(route, {"ran": False, "note": "no mail came"}).body == settled.body
        refused = server.client.post(route, {"ran": True})
        assert refused.status == 409
        assert refused.body["ran"] is False
        assert (refused.body["settled_by"], refused.body["settled_at"]) == ("api", settled.body["settled_at"])
        assert server.client.get("/executions?unknown=true").body == []
        assert server.client.get("/executions/1").body["may_have_run"] == [settled.body]
        assert server.client.get("/executions/1").body["unknown_calls"] == 0

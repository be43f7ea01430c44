"""A workspace is trusted once by its user; what it adds asks again, and only that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server, take

KIT = '''
from langchain_core.tools import tool

@tool
def shout(text: str) -> str:
    """Shouts."""
    return text.upper()
'''
ASKS = [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Done."}]
QUESTION = "[y/N]: "


@pytest.fixture
def newcomer(folder: AgentFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentFolder:
    """A workspace with tools, of a user who has trusted nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("AGENTMD_TRUST", "")
    folder.agent("a", [{"text": "Done."}], "tools: [kit]")
    folder.tools("kit", KIT)
    return folder


def test_at_the_first_command_on_a_terminal_a_no_runs_nothing(newcomer: AgentFolder, tmp_path: Path) -> None:
    with newcomer.terminal("run", "a") as terminal:
        terminal.expect(f"? Trust it? {QUESTION}")
        assert "runs the code of  agents/_config/tools/kit.py" in terminal.screen
        terminal.send_line("")
        assert terminal.exit_code() == 2
        assert "a is not trusted" in terminal.screen or "this workspace is not trusted" in terminal.screen
    assert not (newcomer.path / ".agentmd").exists()
    assert not (tmp_path / "user").exists()


def test_a_yes_is_asked_for_once_and_then_only_for_what_is_new(newcomer: AgentFolder) -> None:
    with newcomer.terminal("run", "a") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("yes")
        assert terminal.exit_code() == 0
    with newcomer.terminal("run", "a") as terminal:
        assert terminal.exit_code() == 0
        assert "Trust" not in terminal.screen
    newcomer.agent("a", [{"text": "Done."}], "tools: [kit]\nauto_approve: all")
    with newcomer.terminal("run", "a") as terminal:
        terminal.expect("with this too? [y/N]: ")
        assert "does not ask before  *" in terminal.screen
        assert "kit.py" not in terminal.screen
        terminal.send_line("n")
        assert terminal.exit_code() == 2
    newcomer.agent("a", [{"text": "Done."}])
    assert newcomer.cli("run", "a").code == 0


def test_without_a_terminal_it_ends_with_2_and_says_what_to_do(newcomer: AgentFolder) -> None:
    ended = newcomer.cli("run", "a")
    assert (ended.code, ended.out) == (2, "")
    assert "`agentmd trust` shows everything" in ended.err
    assert "AGENTMD_TRUST=1" in ended.err
    assert "tools: agents/_config/tools/kit.py" in ended.err


def test_the_variable_counts_in_the_real_environment_alone(newcomer: AgentFolder) -> None:
    (newcomer.path / ".env").write_text("AGENTMD_TRUST=1\n")
    assert newcomer.cli("run", "a").code == 2
    assert newcomer.cli("run", "a", env={"AGENTMD_TRUST": "1"}).code == 0
    assert newcomer.cli("run", "a").code == 2, "it is not recorded"
    wrong = newcomer.cli("run", "a", env={"AGENTMD_TRUST": "yes"})
    assert (wrong.code, "may be 1" in wrong.err) == (2, True)


def test_trust_shows_records_and_takes_back(newcomer: AgentFolder) -> None:
    shown = newcomer.cli("trust")
    assert shown.code == 2
    assert "runs the code of  agents/_config/tools/kit.py" in shown.out
    assert not json.loads(newcomer.cli("trust", "--json").out)["trusted"]
    assert newcomer.cli("trust", "--yes").code == 0
    told = json.loads(newcomer.cli("trust", "--json").out)
    assert told["trusted"]
    (item,) = told["items"]
    assert item == {"agent": "a", "kind": "tools", "text": "agents/_config/tools/kit.py", "allowed": True}
    assert newcomer.cli("run", "a").code == 0
    assert "trusted already" in newcomer.cli("trust").out
    assert newcomer.cli("trust", "--revoke").code == 0
    assert newcomer.cli("run", "a").code == 2


def test_a_workspace_at_another_place_is_another_one(newcomer: AgentFolder, tmp_path: Path) -> None:
    assert newcomer.cli("trust", "--yes").code == 0
    moved = AgentFolder(tmp_path / "elsewhere")
    for name in ("agents/a.md", "agents/_config/tools/kit.py", "agents/_config/scripts/a.yaml"):
        (moved.path / name).write_bytes((newcomer.path / name).read_bytes())
    assert moved.cli("run", "a").code == 2
    (tmp_path / "link").symlink_to(newcomer.path)
    assert newcomer.cli("-w", str(tmp_path / "link"), "run", "a", named=False).code == 0


def test_what_asks_for_nothing_is_not_asked_about(newcomer: AgentFolder, tmp_path: Path) -> None:
    newcomer.agent("a", [{"text": "Done."}])
    with newcomer.terminal("run", "a") as terminal:
        assert terminal.exit_code() == 0
    assert not (tmp_path / "user/agentmd/trust.json").exists()


def test_new_trusts_only_what_it_begins(newcomer: AgentFolder, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    assert newcomer.cli("-w", str(fresh), "new", "mine", "--script", named=False).code == 0
    assert json.loads(newcomer.cli("-w", str(fresh), "trust", "--json", named=False).out)["trusted"]
    record = (tmp_path / "user/agentmd/trust.json").read_text()
    assert str(fresh) in record
    assert newcomer.cli("new", "another", "--script").code == 0
    assert (tmp_path / "user/agentmd/trust.json").read_text() == record
    assert newcomer.cli("run", "a").code == 2


def test_what_waits_goes_on_and_is_answered_while_the_agent_asks_for_more(newcomer: AgentFolder) -> None:
    newcomer.agent("a", ASKS)
    assert newcomer.cli("run", "a").code == 3
    newcomer.agent("a", ASKS, "tools: [kit]\nauto_approve: all")
    assert newcomer.cli("run", "a").code == 2
    assert newcomer.cli("respond", "1", "--text", "yes").code == 0
    assert newcomer.execution().status is Status.SUCCESS


def test_a_link_put_in_the_place_of_a_declared_path_gives_what_waits_nothing_outside(
    newcomer: AgentFolder, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "key.txt").write_text("the key")
    newcomer.file("data/key.txt", "of the workspace")
    newcomer.agent("a", [*ASKS[:1], {"calls": [call("file_read", path="d/key.txt")]}, ASKS[1]], "paths: {d: data}")
    assert newcomer.cli("run", "a").code == 3
    (newcomer.path / "data").rename(newcomer.path / "data.old")
    (newcomer.path / "data").symlink_to(outside)
    assert newcomer.cli("run", "a").code == 2
    assert newcomer.cli("respond", "1", "--text", "yes").code == 0
    results = str(newcomer.results())
    assert "d/key.txt is not a path that this agent may use" in results
    assert "the key" not in results


def test_a_running_server_starts_no_agent_that_asks_for_more_until_it_is_trusted(newcomer: AgentFolder) -> None:
    newcomer.agent("a", ASKS)
    newcomer.agent("b", [{"text": "Done."}])
    with Server(newcomer.path) as server, server.client.stream("/events/stream") as events:
        assert server.client.post("/agents/a/run", {}).status == 200
        newcomer.until_status(Status.WAITING)
        newcomer.agent("a", ASKS, "tools: [kit]")
        told = take(events, 1, "untrusted")[0]
        assert told.data == {"agent_name": "a", "items": ["tools: agents/_config/tools/kit.py"]}
        refused = server.client.post("/agents/a/run", {})
        assert refused.status == 409
        assert "not trusted" in refused.body["detail"]
        assert server.client.post("/agents/b/run", {}).status == 200
        assert server.client.get("/info").body["untrusted"] == {"a": ["tools: agents/_config/tools/kit.py"]}
        assert "a does not start before `agentmd trust`" in newcomer.cli("status").out
        request = newcomer.requests()[0].id
        assert (
            server.client.post("/executions/1/respond", {"request_id": request, "response": {"text": "yes"}}).status
            == 200
        )
        newcomer.until_status(Status.SUCCESS)
        assert newcomer.cli("trust", "--yes").code == 0
        assert server.client.post("/agents/a/run", {}).status == 200


def test_a_broken_config_keeps_nobody_from_stopping(newcomer: AgentFolder) -> None:
    newcomer.agent("a", [{"text": "Done."}])
    assert newcomer.cli("start", "-d").code == 0
    for name in ("config.yaml", ".env"):
        (newcomer.path / name).write_text("defaults: [\n")
    alive = newcomer.cli("status")
    assert (alive.code, "process" in alive.out) == (0, True), alive
    assert "not read here: " in alive.err
    assert newcomer.cli("stop").out == "Stopped.\n"

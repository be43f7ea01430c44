"""Hot reload by a real server: half-saved files, changed defaults, settings that need a restart, broken tools."""

from __future__ import annotations

import json
import os
import time
from itertools import pairwise
from typing import Any

import pytest

from agent_md.executions.execution import Execution
from agent_md.executions.firings import FiringState
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server, SseEvent, run, take, wait_for
from tests.support.waiting import until


def executions(folder: AgentFolder) -> list[Execution]:
    with folder.store() as store:
        return store.executions()


def firings(folder: AgentFolder) -> list[Any]:
    with folder.store() as store:
        return store.firings.listed()[::-1]


def info(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get("/info").body
    return found


@pytest.mark.parametrize("cut", ["in the settings", pytest.param("in the text", marks=pytest.mark.stress)])
def test_a_schedule_goes_on_while_its_agent_file_is_half_saved(folder: AgentFolder, cut: str) -> None:
    folder.agent("tidy", [{"text": "Done."}], "trigger: {type: schedule, every: 1s}")
    path = folder.path / "agents/tidy.md"
    if cut == "in the text":
        path.write_text(path.read_text() + "Keep everything that is younger than a day.\n" * 20)
    whole, copy = path.read_text(), folder.path / "agents/.tidy.md.new"
    told: list[SseEvent] = []
    with Server(folder.path) as server, server.client.stream("/events/stream") as events:
        for round_ in range(1, 4):
            until(lambda done=round_: len(executions(folder)) >= done)  # type: ignore[misc]
            os.truncate(path, len(whole) // 2)
            told += take(events, 1, "agents_changed")  # it stays half saved until that was noticed
            copy.write_text(whole)
            copy.replace(path)
            told += take(events, 1, "agents_changed")
        started = len(executions(folder))
        until(lambda: len(executions(folder)) > started)
    seen = "invalid" if cut == "in the settings" else "updated"
    assert [event.data["event"] for event in told] == [seen, "updated"] * 3
    assert {(event.data["agent_name"], event.data["file"]) for event in told} == {("tidy", "agents/tidy.md")}
    assert all(("error" in event.data) == (event.data["event"] == "invalid") for event in told)
    assert len({execution.spec_digest for execution in executions(folder)}) == 1
    found = firings(folder)
    assert all(firing.state is not FiringState.SKIPPED for firing in found)
    assert {round(later.due_at - earlier.due_at, 3) for earlier, later in pairwise(found)} == {1.0}


@pytest.mark.stress
def test_a_schedule_counts_anew_only_when_its_trigger_changes(folder: AgentFolder) -> None:
    folder.agent("tidy", [{"text": "Done."}], "trigger: {type: schedule, every: 1s}")
    path = folder.path / "agents/tidy.md"
    with Server(folder.path):
        until(lambda: firings(folder))
        first = firings(folder)[0].due_at
        path.write_text(path.read_text().replace("Work.", "Work well."))
        until(lambda: len({execution.spec_digest for execution in executions(folder)}) == 2)
        assert {(firing.due_at - first) % 1 for firing in firings(folder)} == {0.0}
        path.rename(folder.path / "agents/moved.md")
        count = len(firings(folder))
        until(lambda: len(firings(folder)) > count)
        assert {(firing.due_at - first) % 1 for firing in firings(folder)} == {0.0}
        moved = folder.path / "agents/moved.md"
        moved.write_text(moved.read_text().replace("every: 1s", "every: 2s"))
        changed = time.time()
        until(lambda: firings(folder)[-1].due_at > changed + 1.5)
        assert (firings(folder)[-1].due_at - first) % 1 != 0.0


class TestConfig:
    @pytest.fixture
    def served(self, folder: AgentFolder) -> AgentFolder:
        turns = [{"calls": [call("file_delete", path="a.txt")]}, {"calls": [call("file_delete", path="b.txt")]}]
        folder.agent("cleaner", [*turns, {"text": "Done."}], "on_pending: parallel")
        folder.file("a.txt")
        folder.file("b.txt")
        return folder

    def test_new_defaults_are_for_new_executions(self, served: AgentFolder) -> None:
        with Server(served.path) as server, server.client.stream("/events/stream") as events:
            first = run(server.client, agent="cleaner")
            wait_for(server.client, first, "waiting")
            served.file("config.yaml", "defaults: {confirm_tools: []}\n")
            (told,) = take(events, 1, "config_changed")
            changed = {"event": "updated", "files": ["config.yaml"], "changed": ["defaults.confirm_tools"]}
            assert told.data == {**changed, "restart": []}
            (agent,) = take(events, 1, "agents_changed")
            assert (agent.data["event"], agent.data["agent_name"]) == ("updated", "cleaner")
            assert server.client.post(f"/executions/{first}/respond", {"response": {"approved": True}}).status == 200
            until(lambda: len(server.client.get(f"/executions/{first}/requests").body) == 2)
            wait_for(server.client, first, "waiting")
            wait_for(server.client, run(server.client, agent="cleaner"), "success")

    def test_a_broken_one_changes_nothing_and_is_said_everywhere(self, served: AgentFolder) -> None:
        served.file("config.yaml", "defaults: {confirm_tools: []}\n")
        with Server(served.path) as server, server.client.stream("/events/stream") as events:
            served.file("config.yaml", "defaults: {confirm_tools: [file_del")
            (told,) = take(events, 1, "config_changed")
            assert (told.data["event"], told.data["files"]) == ("invalid", ["config.yaml"])
            assert info(server)["config_error"] == told.data["error"]
            log = (served.path / ".agentmd/agentmd.log").read_text()
            assert "the configuration is invalid, so the server goes on with that of before: " in log
            wait_for(server.client, run(server.client, agent="cleaner"), "success")
            served.file("config.yaml", "defaults: {confirm_tools: []}\n")
            (mended,) = take(events, 1, "config_changed")
            assert (mended.data["event"], mended.data["changed"]) == ("updated", [])
            assert info(server)["config_error"] is None

    def test_what_needs_a_restart_is_said_and_has_no_effect_before(self, served: AgentFolder) -> None:
        with Server(served.path) as server:
            served.file("config.yaml", "state_dir: other\nserver: {port: 0}\n")
            reloaded = server.client.post("/agents/reload").body
            restart = ["state_dir", "database", "server.port"]
            assert reloaded == {"agents_loaded": 1, "config_error": None, "restart_needed": restart}
            assert info(server)["restart_needed"] == restart
            served.file("config.yaml", "server: {port: 0}\n")
            served.file(".env", "half a line")
            until(lambda: info(server)["config_error"])
            shown = served.cli("status").out
            assert f"goes on with that of before:\n{served.path / '.env'}:1: this line is not NAME=value" in shown
            assert "restart the server to use them: state_dir, database, server.port\n" in shown
            assert "url" not in server.address or server.address["url"] is None
            wait_for(server.client, run(server.client, agent="cleaner"), "waiting")
        assert not (served.path / "other").exists()

    def test_a_broken_dotenv_keeps_its_keys(self, served: AgentFolder) -> None:
        served.agent("cleaner", [{"text": "Done."}])
        path = served.path / "agents/keyed.md"
        path.write_text("---\nmodel: {provider: google, name: x, base_url: 'http://127.0.0.1:9'}\n---\nWork.\n")
        served.file(".env", "GOOGLE_API_KEY=a-key-of-mine\n")
        with Server(served.path) as server, server.client.stream("/events/stream") as events:
            served.file(".env", "GOOGLE_API_KEY=a-key-of-mine\nOTHER")
            (told,) = take(events, 1, "config_changed")
            assert (told.data["event"], told.data["files"]) == ("invalid", [".env"])
            assert server.client.post("/agents/keyed/run").status == 200
            assert "a-key-of-mine" not in (served.path / ".agentmd/agentmd.log").read_text() + json.dumps(told.data)


TOOL = """
from langchain_core.tools import tool

@tool
def act() -> str:
    '''Acts.'''
    return {said!r}
"""


def test_a_broken_tool_module_is_used_as_it_was_and_said(folder: AgentFolder) -> None:
    folder.agent("actor", [{"calls": [call("act")]}, {"text": "Done."}], "tools: [mine]")
    folder.tools("mine", TOOL.format(said="one"))
    with Server(folder.path) as server, server.client.stream("/events/stream") as events:
        wait_for(server.client, run(server.client, agent="actor"), "success")
        folder.tools("mine", TOOL.format(said="broken").replace("return", "return ("))
        (told,) = take(events, 1, "tools_changed")
        assert (told.data["event"], told.data["module"], told.data["agents"]) == ("invalid", "mine", ["actor"])
        assert info(server)["tool_problems"] == {"mine": told.data["error"]}
        wait_for(server.client, run(server.client, agent="actor"), "success")
        folder.tools("mine", TOOL.format(said="two"))
        (mended,) = take(events, 1, "tools_changed")
        assert mended.data == {"event": "updated", "module": "mine", "agents": ["actor"]}
        wait_for(server.client, run(server.client, agent="actor"), "success")
    assert [folder.results(number) for number in (1, 2, 3)] == [["one"], ["one"], ["two"]]


def test_an_invalid_file_that_is_removed_is_said_to_be_gone(folder: AgentFolder) -> None:
    broken = folder.file("agents/broken.md", "---\nconfrim: x\n---\n")
    with Server(folder.path) as server, server.client.stream("/events/stream") as events:
        until(lambda: len(server.client.get("/agents/invalid").body) == 1)
        broken.unlink()
        (told,) = take(events, 1, "agents_changed")
        assert told.data == {"event": "removed", "agent_name": "broken", "file": "agents/broken.md"}
        assert server.client.get("/agents/invalid").body == []

"""`agentmd tools`: every tool of an agent, where it comes from, its arguments, and which of its calls ask."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.agent_folder import AgentFolder
from tests.support.mcp_server import server_entry
from tests.support.trusting import UNTRUSTED

TOOL = '''
from langchain_core.tools import tool

@tool
def publish(title: str, days: int = 1) -> str:
    """Publishes a page."""
    return title
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> AgentFolder:
    made = AgentFolder(tmp_path_factory.mktemp("tools") / "ws")
    made.tools("publishing", TOOL)
    made.file("agents/_config/mcp-servers.json", json.dumps({"t": server_entry()}))
    rules = "confirm: ['publish(days=3)']\ndeny: [file_delete]\nauto_approve: ['run_command(git status)']"
    made.agent("maker", [{"text": "Done."}], f"tools: [publishing]\nmcp: [t]\n{rules}")
    made.agent("other", [{"text": "Done."}])
    return made


def listed(folder: AgentFolder, *args: str) -> dict[str, dict[str, Any]]:
    ended = folder.cli("tools", *args, "--json")
    assert ended.code == 0, ended
    return {each["agent"]: {tool["name"]: tool for tool in each["tools"]} for each in json.loads(ended.out)}


def test_of_one_agent(folder: AgentFolder) -> None:
    (maker,) = listed(folder, "maker").values()
    assert maker["publish"]["origin"] == "agents/_config/tools/publishing.py"
    assert set(maker["publish"]["parameters"]["properties"]) == {"title", "days"}
    assert [call["decision"] for call in maker["publish"]["calls"]] == ["ask", "run"]
    assert [(call["decision"], call["source"]) for call in maker["file_delete"]["calls"]] == [("refuse", "deny")]
    assert [call["rule"] for call in maker["run_command"]["calls"]] == ["run_command(git status)", None]
    assert any(tool["origin"] == "MCP server t" for tool in maker.values())
    assert maker["file_read"]["origin"] == "built in"


def test_of_all_for_people(folder: AgentFolder) -> None:
    ended = folder.cli("tools")
    assert ended.code == 0, ended
    assert "maker  agents/maker.md" in ended.out
    assert "other  agents/other.md" in ended.out
    (row,) = [line for line in ended.out.splitlines() if line.split()[:1] == ["publish"]]
    assert "title, days?" in row
    assert "agents/_config/tools/publishing.py" in row
    assert "ask (confirm: publish(days=3))" in row


def test_static_needs_no_trust_and_loads_nothing(folder: AgentFolder, tmp_path: Path) -> None:
    user = {**UNTRUSTED, "XDG_STATE_HOME": str(tmp_path / "user")}
    assert folder.cli("tools", env=user).code == 2
    ended = folder.cli("tools", "maker", "--static", env=user)
    assert (ended.code, "file_read" in ended.out) == (0, True), ended
    assert not [line for line in ended.out.splitlines() if line.split()[:1] == ["publish"]]
    assert "the tools of publishing are not shown" in ended.out


def test_tools_that_cannot_be_loaded_are_told_beside_the_others(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ws")
    folder.tools("broken", "import nothing_of_this_name")
    folder.agent("a", [{"text": "Done."}], "tools: [broken]")
    folder.agent("b", [{"text": "Done."}])
    ended = folder.cli("tools")
    assert (ended.code, "file_read" in ended.out, "a: " in ended.err) == (1, True, True), ended

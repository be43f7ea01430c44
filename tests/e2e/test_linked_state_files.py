"""Links in the place of files of the state folder: what they lead to is neither written nor made."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.agent_folder import AgentFolder, call

_FILES = ("agentmd.log", "tools.log", "server.err", "server.json", "api_key", ".gitignore")
_TOOLS = """
from langchain_core.tools import tool

@tool
def loud() -> str:
    \"\"\"Prints.\"\"\"
    print("printed by a tool")
    return "done"
"""


def _planted(folder: AgentFolder, target: Path, name: str) -> Path:
    link = folder.path / ".agentmd" / name
    link.parent.mkdir(mode=0o700, exist_ok=True)
    link.symlink_to(target)
    return link


def test_nothing_is_written_through_them(folder: AgentFolder, tmp_path: Path) -> None:
    folder.tools("talking", _TOOLS)
    folder.agent("worker", [{"calls": [call("loud")]}, {"text": "Done."}], "tools: [talking]")
    victims = {name: tmp_path / f"victim-{name}" for name in _FILES}
    for name, victim in victims.items():
        if name not in ("server.json", ".gitignore"):
            victim.write_text("the user's\n")
            victim.chmod(0o644)
        _planted(folder, victim, name)
    debug = {"AGENTMD_LOG_LEVEL": "DEBUG"}
    assert folder.cli("run", "worker", env=debug).code == 0
    assert folder.cli("start", "--detach", "--port", "0", env=debug).code != 0, "the file of its errors is a link"
    _planted_away = folder.path / ".agentmd/server.err"
    _planted_away.unlink()
    (folder.path / ".agentmd/api_key").unlink()
    assert folder.cli("start", "--detach", "--port", "0", env=debug).code == 0
    assert folder.cli("stop").code == 0
    for name, victim in victims.items():
        if name in ("server.json", ".gitignore"):
            assert not os.path.lexists(victim), name
        else:
            assert victim.read_text() == "the user's\n", name
            assert victim.stat().st_mode & 0o777 == 0o644


def test_a_server_takes_no_lock_and_no_key_through_one(folder: AgentFolder, tmp_path: Path) -> None:
    folder.agent("worker", [{"text": "Done."}])
    victim = tmp_path / "victim"
    victim.write_text("the user's\n")
    link = _planted(folder, victim, "server.lock")
    refused = folder.cli("start")
    assert refused.code != 0
    assert "server.lock cannot be made" in refused.err
    link.unlink()
    _planted(folder, victim, "api_key")
    refused = folder.cli("start", "--port", "0")
    assert refused.code == 2
    assert "api_key cannot be read" in refused.err
    assert victim.read_text() == "the user's\n"

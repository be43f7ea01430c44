"""What tools print is for nobody's terminal and for nobody's JSON, and what is typed is not for them."""

from __future__ import annotations

import json

from tests.support.agent_folder import AgentFolder, call

NOISY = """
import os
from langchain_core.tools import tool
print("at import")

@tool
def noisy(text: str) -> str:
    "Prints."
    print(text)
    os.system("echo from a child; echo its error >&2")
    return "ok"
"""


def _noisy(folder: AgentFolder) -> None:
    folder.agent("noisy", [{"calls": [call("noisy", text="\x1b[2J? Confirm [y/N]: y")]}, {"text": "Done."}])
    path = folder.path / "agents/noisy.md"
    path.write_text(path.read_text().replace("---\n", "---\ntools: [noisy]\n", 1))
    tools = folder.path / "agents/_config/tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / "noisy.py").write_text(NOISY)


def test_every_line_of_a_json_run_is_json(folder: AgentFolder) -> None:
    _noisy(folder)
    ended = folder.cli("run", "noisy", "--json")
    assert [json.loads(line)["event"] for line in ended.out.splitlines()][-1] == "complete"
    assert ended.err == ""


def test_a_quiet_run_prints_the_answer_alone(folder: AgentFolder) -> None:
    _noisy(folder)
    ended = folder.cli("run", "noisy", "-q")
    assert (ended.out, ended.err) == ("Done.\n", "")
    kept = (folder.path / ".agentmd/tools.log").read_text()
    assert all(text in kept for text in ("\x1b[2J? Confirm", "from a child", "its error"))


def test_nothing_of_it_reaches_the_terminal(folder: AgentFolder) -> None:
    _noisy(folder)
    with folder.terminal("run", "noisy") as terminal:
        assert terminal.exit_code() == 0
        assert "Done." in terminal.screen
        shown_by_us = [line for line in terminal.screen.splitlines() if "🔧" not in line]
        assert not any("Confirm [y/N]" in line or "from a child" in line for line in shown_by_us)
        assert "\x1b[2J" not in terminal.screen
    assert "at import" not in folder.cli("validate").out


READING = """
import subprocess
from langchain_core.tools import tool
from agent_md.sdk import request_input

@tool
async def reading() -> str:
    "Reads what is typed, and asks."
    try:
        taken = input()
    except EOFError:
        taken = subprocess.run(["cat"], capture_output=True, text=True).stdout
    return f"took {taken!r}, was told {request_input('Name?')}"
"""


def test_what_is_typed_is_not_for_tools(folder: AgentFolder) -> None:
    folder.tools("reading", READING)
    folder.agent("reader", [{"calls": [call("reading")]}, {"text": "Done."}], "tools: [reading]")
    with folder.terminal("run", "reader") as terminal:
        terminal.expect("? Name?")
        terminal.expect("> ")
        terminal.send_line("Ann")
        assert terminal.exit_code() == 0
    assert folder.results() == ["took '', was told Ann"]

"""What the documents show and no walk can do: sessions on a terminal, a second terminal, and functions to be called."""

from __future__ import annotations

import json
import re
import runpy
import time
from email.message import Message
from pathlib import Path

import pytest

from agent_md.executions.states import CallOutcome
from agent_md.webhooks.signing import headers_for
from tests.support.agent_folder import AgentFolder
from tests.support.chatting import on_screen, say
from tests.support.demonstration import copy_of_workspace, prepare_output
from tests.support.documents import ROOT, Document
from tests.support.forked_terminal import ForkedTerminal
from tests.support.processes import Cli
from tests.support.walks import same


def document(name: str) -> Document:
    return Document(name, (ROOT / name).read_text(encoding="utf-8"))


README = document("README.md")
DURABILITY = document("docs/durability.md")
CHAT = document("docs/chat.md")
CLI = document("docs/cli.md")
TOOLS = document("docs/tools.md")
WEBHOOKS = document("docs/webhooks.md")


def masked(text: str, workspace: Path) -> str:
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "17:03:12", text).replace(str(workspace), "/home/ann/agentmd")


def block_of(document: Document, language: str, beginning: str) -> str:
    (text,) = [b.text for b in document.blocks() if b.language == language and b.text.startswith(beginning)]
    return text


def test_the_session_of_the_readme_is_a_real_one(tmp_path: Path) -> None:
    workspace = copy_of_workspace(tmp_path / "repository")
    prepare_output(workspace)

    with ForkedTerminal(["run", "cleaner"], cwd=workspace, columns=200, rows=50) as terminal:
        terminal.expect("[y/N]: ")
        terminal.send_line("y")
        terminal.expect("Choice: ")
        terminal.send_line("2")
        assert terminal.exit_code() == 0

    shown = f"$ agentmd run cleaner\n{masked(terminal.shown, workspace)}"
    assert block_of(README, "console", "$ agentmd run cleaner\n") == shown


@pytest.fixture
def first_agent(tmp_path: Path) -> Path:
    """The workspace that the README has its reader make."""
    workspace = tmp_path / "tidy"
    workspace.mkdir()
    assert Cli(workspace)("new", "helper", "--script").code == 0
    return workspace


def test_the_first_agent_is_the_one_that_is_made(first_agent: Path) -> None:
    assert (first_agent / "agents/helper.md").read_text() == block_of(README, "markdown", "---\nname: helper")


def test_the_first_agent_is_approved_from_a_second_terminal(first_agent: Path) -> None:
    other = Cli(first_agent)
    assert other("validate").code == 0
    assert "file_write    confirm (agents/helper.md)" in other("explain", "helper").out

    with ForkedTerminal(["run", "helper"], cwd=first_agent) as terminal:
        terminal.expect("[y/N]: ")
        assert "Confirm file_write" in other("pending").out
        assert other("respond", "1", "--yes").code == 0
        terminal.expect("That is all.")
        assert terminal.exit_code() == 0

    assert (first_agent / "helper-note.txt").read_text() == "Hello from helper.\n"


def test_the_first_agent_needs_a_key_for_a_real_model(first_agent: Path) -> None:
    agent = first_agent / "agents/helper.md"
    line = "model: {provider: google, name: gemini-2.5-flash}"
    assert f"`{line}`" in README.text
    agent.write_text(re.sub(r"^model: .*$", line, agent.read_text(), flags=re.MULTILINE))
    run = Cli(first_agent, {"GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""})

    refused = run("run", "helper")
    accepted = run("validate", env={"GOOGLE_API_KEY": "a-key"})

    assert refused.code == 2
    assert "GOOGLE_API_KEY" in refused.err
    assert accepted.code == 0, accepted.out


def test_a_copy_is_made_while_an_execution_waits_and_is_put_back(folder: AgentFolder) -> None:
    folder.agent(
        "writer", [{"calls": [{"name": "file_write", "args": {"path": "a.txt", "content": "A"}}]}, {"text": "."}]
    )
    assert folder.cli("run", "writer").code == 3
    script = folder.path / "copying.py"
    script.write_text(block_of(DURABILITY, "python", "import os\nimport sqlite3"))
    state = folder.path / ".agentmd"
    runpy.run_path(str(script))["copy_database"](str(state / "agentmd.db"), str(folder.path / "copy.db"))
    assert folder.cli("cancel", "1").code == 0

    for path in state.glob("*.db*"):
        path.unlink()
    (folder.path / "copy.db").rename(state / "agentmd.db")

    assert folder.cli("respond", "1", "--yes").code == 0
    assert folder.execution().output == "."
    with folder.store() as store:
        assert [call.outcome for call in store.calls(folder.execution().id)] == [CallOutcome.DONE]
    assert (folder.path / "a.txt").read_text() == "A"


def test_the_chat_of_the_page_is_a_real_one(tmp_path: Path) -> None:
    workspace = tmp_path / "garden"
    for block in CHAT.blocks():
        if block.file:
            (workspace / block.file).parent.mkdir(parents=True, exist_ok=True)
            (workspace / block.file).write_text(block.text)
    (workspace / "output").mkdir()
    (workspace / "output/stale.log").write_text("nothing to report\n")

    with ForkedTerminal(["chat", "keeper"], cwd=workspace, columns=200, rows=50) as terminal:
        say(terminal, "Which files in output/ are old?")
        say(terminal, "Delete it.")
        terminal.expect("[y/N]: ")
        terminal.send_line("y")
        say(terminal, "/exit")
        assert terminal.exit_code() == 0
        screen = on_screen(terminal, 200)

    shown = block_of(CHAT, "console", "$ agentmd chat keeper\n")
    assert same(shown, f"$ agentmd chat keeper\n{screen}", {str(workspace): "/home/ann/garden"}), screen


def test_the_questions_of_the_page_can_be_asked(folder: AgentFolder) -> None:
    questions = json.loads(block_of(TOOLS, "json", "[\n"))
    folder.agent("asker", [{"calls": [{"name": "ask_user_question", "args": {"questions": questions}}]}, {"text": "."}])
    assert folder.cli("run", "asker").code == 3
    assert folder.cli("respond", "1", "--answers", '{"Which database?": "SQLite"}').code == 0
    assert folder.results() == ['{"Which database?": "SQLite"}']


def received(headers: dict[str, str]) -> Message:
    """The headers as a request of the standard library has them."""
    message = Message()
    for name, value in headers.items():
        message[name] = value
    return message


def test_the_receiver_of_the_page_tells_what_is_genuine(tmp_path: Path) -> None:
    (tmp_path / "receiver.py").write_text(block_of(WEBHOOKS, "python", "# receiver.py\n"))
    is_genuine = runpy.run_path(str(tmp_path / "receiver.py"))["is_genuine"]
    now = int(time.time())
    sent = headers_for("evt_1", b"{}", now, token=None, secret="a secret")
    late = headers_for("evt_1", b"{}", now - 3600, token=None, secret="a secret")

    assert is_genuine(received(sent), b"{}", "a secret")
    assert not is_genuine(received(sent), b"{ }", "a secret")
    assert not is_genuine(received(sent), b"{}", "another")
    assert not is_genuine(received({**sent, "webhook-id": "evt_2"}), b"{}", "a secret")
    assert not is_genuine(received(late), b"{}", "a secret")
    assert not is_genuine(received({"webhook-id": "evt_1", "webhook-timestamp": str(now)}), b"{}", "a secret")


@pytest.mark.parametrize("command", ["list", "explain", "info"])
def test_the_json_of_a_command_has_the_names_that_its_row_has(command: str, folder: AgentFolder) -> None:
    folder.agent("asker", [{"text": "."}], "confirm: [file_edit]")
    folder.file("agents/bad.md", "no agent")
    section = CLI.text.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    row = next(line for line in section.splitlines() if line.startswith("| `--json`"))
    printed = folder.cli(command, *(["asker"] if command == "explain" else []), "--json")
    assert printed.code == 0, printed.err

    named = set(re.findall(r'"(\w+)"', row))
    assert named
    assert json.loads(printed.out).keys() <= named
    assert {name for name in named if f'"{name}"' not in printed.out} == set()

"""What the documents show, done: the session of the README, its first agent, and a copy that is put back."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from agent_md.executions.model import CallOutcome
from tests.support.agent_folder import AgentFolder
from tests.support.demonstration import copy_of_workspace, prepare_output
from tests.support.documents import ROOT, Document
from tests.support.forked_terminal import ForkedTerminal
from tests.support.processes import Cli

README = Document("README.md", (ROOT / "README.md").read_text(encoding="utf-8"))
DURABILITY = Document("docs/durability.md", (ROOT / "docs/durability.md").read_text(encoding="utf-8"))


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
    assert "file_write   confirm (agents/helper.md)" in other("explain", "helper").out

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
    script.write_text(block_of(DURABILITY, "python", "import sqlite3"))
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

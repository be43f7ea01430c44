"""The example that the product is known by: an agent asks before it deletes a file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
QUESTION = '? Confirm file_delete {"path": "output/old-report.txt"} [y/N]: '


@pytest.fixture
def report(folder: AgentFolder) -> Path:
    folder.agent(
        "cleaner",
        [
            {"calls": [call("file_delete", path="output/old-report.txt")]},
            {"expect": {"tool": "file_delete", "result": "File deleted|Action denied by user"}, "text": "Done."},
        ],
        "confirm: [file_edit, file_move]",
    )
    return folder.file("output/old-report.txt", "old\n")


def masked(text: str) -> str:
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS", text)


def whole_program(folder: AgentFolder, *args: str) -> Terminal:
    """As a person starts it, nothing imported before."""
    return Terminal(
        [sys.executable, "-m", "agent_md.cli.main", *args], cwd=folder.path, env={"PYTHONPATH": str(ROOT), "CI": None}
    )


def test_yes_deletes_the_file(folder: AgentFolder, report: Path) -> None:
    with whole_program(folder, "run", "cleaner") as terminal:
        terminal.expect(QUESTION)
        assert report.exists()
        terminal.send_line("y")
        assert terminal.exit_code() == 0
        assert masked(terminal.shown).replace("\n    ", "") == (  # a long path is folded
            "▶ Running cleaner  script/cleaner\n"
            "\n"
            'HH:MM:SS cleaner 🔧 file_delete → {"path": "output/old-report.txt"}\n'
            f"  → {report} (4 bytes, text)\n"
            "  y yes · n no · n TEXT no, with this reason · e edit · a always · ? everything\n"
            '? Confirm file_delete {"path": "output/old-report.txt"} [y/N]: y\n'
            "\n"
            "HH:MM:SS cleaner 📎 file_delete ← File deleted: output/old-report.txt\n"
            "HH:MM:SS cleaner ✅ Done.\n"
        )
    assert not report.exists()


def test_no_keeps_the_file_and_tells_the_model(folder: AgentFolder, report: Path) -> None:
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("n")
        assert terminal.exit_code() == 0
        assert "cleaner 📎 file_delete ← Action denied by user\n" in terminal.screen
        assert terminal.screen.endswith("cleaner ✅ Done.\n")
    assert report.exists()
    assert folder.results() == ["Action denied by user"]


def test_a_reason_is_told_to_the_model(folder: AgentFolder, report: Path) -> None:
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("no, file is still needed")
        assert terminal.exit_code() == 0
    assert report.exists()
    assert folder.results() == ["Action denied by user: file is still needed"]


def test_without_a_terminal_it_waits_and_another_process_answers(folder: AgentFolder, report: Path) -> None:
    run = folder.cli("run", "cleaner")
    assert run.code == 3
    assert run.err == "execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n"
    assert masked(run.out) == (
        '▶ Running cleaner  script/cleaner\n\nHH:MM:SS cleaner 🔧 file_delete → {"path": "output/old-report.txt"}\n'
    )
    assert report.exists()

    pending = folder.cli("pending")
    assert (pending.code, pending.err) == (0, "")
    title, rule, row = pending.out.splitlines()
    assert title == " #   Agent      Question"
    assert re.fullmatch(" ─+", rule)
    assert row == ' 1   cleaner    Confirm file_delete {"path": "output/old-report.txt"}'

    respond = folder.cli("respond", "1", "--yes")
    assert (respond.code, respond.err) == (0, "")
    assert masked(respond.out) == (
        f'HH:MM:SS cleaner 👉 Confirm file_delete {{"path": "output/old-report.txt"}}: approved by {login()}\n'
        "HH:MM:SS cleaner 📎 file_delete ← File deleted: output/old-report.txt\n"
        "HH:MM:SS cleaner ✅ Done.\n"
    )
    assert not report.exists()
    assert folder.execution().status is Status.SUCCESS
    assert folder.cli("pending").out == "Nothing waits for an answer.\n"

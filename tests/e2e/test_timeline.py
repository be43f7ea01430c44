"""`logs` and `logs -e` of real executions: how they stand, what was waited for, what a dead process left."""

from __future__ import annotations

import re
import time

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.ids import ExecutionId
from tests.support.agent_folder import AgentFolder, call
from tests.support.waiting import until

ENDLESS = '''
import time
from pathlib import Path
from langchain_core.tools import tool

@tool
def endless() -> str:
    """Works for a minute."""
    Path("begun").touch()
    time.sleep(60)
    return "late"
'''


def masked(text: str) -> str:
    day = re.sub(r"\d{4}-\d\d-\d\d", "DAY", text)
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS", re.sub(r"\d+\.\d s of work", "N s of work", day))


def test_what_a_dead_process_left_says_so_and_how_to_go_on(folder: AgentFolder) -> None:
    folder.tools("slow", ENDLESS)
    folder.agent("worker", [{"calls": [call("endless")]}, {"text": "Done."}], "tools: [slow]")
    run = folder.cli.start("run", "worker")
    until((folder.path / "begun").exists)
    assert "died" not in folder.cli("logs").out
    run.kill()
    run.wait()
    for listing in (folder.cli("logs").out, folder.cli("resume").out):
        _, _, row, note = listing.splitlines()
        assert row.split()[:4] == ["1", "worker", "died", "manual"]
        assert note == "The process that drove 1 died: agentmd resume 1"
    *_, total, advice = folder.cli("logs", "-e", "1").out.splitlines()
    assert "worker ■ running, its process died, after" in total
    assert advice == "  agentmd resume 1 goes on"


def test_the_time_of_humans_is_told(folder: AgentFolder) -> None:
    folder.file("a.txt")
    folder.agent(
        "cleaner",
        [
            {"calls": [call("file_delete", path="a.txt")], "usage": {"input": 1200, "output": 30, "cost": 0.01}},
            {"text": "Done.", "usage": {"input": 1300, "output": 4, "cost": 0.0023}},
        ],
        "confirm_timeout: 1h",
    )
    assert folder.cli("run", "cleaner").code == 3
    with folder.store() as store:
        asked_at = store.requests(ExecutionId(1))[0].created_at
    until(lambda: time.time() > asked_at + 1)
    waiting = masked(folder.cli("logs", "-e", "1").out).splitlines()
    assert "cleaner ■ waiting after N s of work and 1 s of waiting for answers" in waiting[-2]
    assert waiting[-1] == "  agentmd respond 1 answers it"
    assert folder.cli("respond", "1", "--yes").code == 0
    lines = masked(folder.cli("logs", "-e", "1").out).splitlines()
    question = 'Confirm file_delete {"path": "a.txt"}'
    assert [line.replace("HH:MM:SS cleaner ", "") for line in lines] == [
        "── DAY ──",
        "▶ Started execution 1 (manual, script/cleaner)",
        "👤 Begin.",
        '🔧 file_delete → {"path": "a.txt"}',
        f"❓ {question} (until DAY HH:MM:SS)",
        "⏳ Waiting for an answer",
        f"👉 {question}: approved by {login()} (after 1 s)",
        "📎 file_delete ← File deleted: a.txt",
        "✅ Done.",
        "■ success after N s of work and 1 s of waiting for answers, 2,534 tokens (2,500 in, 34 out), $0.0123",
    ]


@pytest.mark.parametrize("columns", [24, 40, 80])
def test_a_timeline_on_a_narrow_terminal_is_folded_and_whole(folder: AgentFolder, columns: int) -> None:
    text = "A rather long answer " * 10 + "end.\n" + "and another line " * 10
    folder.agent("talker", [{"text": text}])
    assert folder.cli("run", "talker").code == 0
    with folder.terminal("logs", "-e", "1", columns=columns) as terminal:
        assert terminal.exit_code() == 0
        lines = terminal.screen.splitlines()
        assert max(len(line) for line in lines) <= columns
        assert "".join(text.split()) in "".join(terminal.screen.split())
        assert all(re.match(r"\d\d:\d\d:\d\d talker |  |── ", line) for line in lines)

"""Where nobody can be asked: no hang, no answer taken from anywhere, and the execution kept."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent_md.executions.requests import Request
from agent_md.executions.states import Outcome, Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
WAITS = "execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n"
UNREAD = "note: standard input is not read; `-m -` takes it as the message\n"


@pytest.fixture
def file(folder: AgentFolder) -> Path:
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
    return folder.file("a.txt")


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT)}


def run_cleaner(folder: AgentFolder, *before: str, stdin: int | None = None, said: str = "") -> None:
    """`run cleaner` as a whole program; `before` is put before its command line."""
    ended = subprocess.run(
        [*before, sys.executable, "-m", "agent_md.cli.main", "run", "cleaner"],
        cwd=folder.path,
        env=environment(),
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (ended.returncode, ended.stderr) == (3, said + WAITS)
    assert "[y/N]" not in ended.stdout
    assert folder.execution().status is Status.WAITING


def test_a_closed_standard_input_is_no_answer(folder: AgentFolder, file: Path) -> None:
    run_cleaner(folder, "sh", "-c", 'exec "$@" <&-', "sh")
    assert file.exists()


@pytest.mark.parametrize(("typed", "said"), [(b"", ""), (b"y\ny\n", UNREAD)])
def test_an_open_pipe_is_never_read(folder: AgentFolder, file: Path, typed: bytes, said: str) -> None:
    read, write = os.pipe()
    try:
        os.write(write, typed)
        run_cleaner(folder, stdin=read, said=said)
        os.write(write, b"end")
        assert os.read(read, 100) == typed + b"end"
    finally:
        os.close(read)
        os.close(write)
    assert file.exists()


def test_dev_null_is_no_answer(folder: AgentFolder, file: Path) -> None:
    run_cleaner(folder, stdin=subprocess.DEVNULL)
    assert file.exists()


def test_ci_is_never_asked_even_on_a_terminal(folder: AgentFolder, file: Path) -> None:
    with folder.terminal("run", "cleaner", env={"CI": "1"}) as terminal:
        terminal.send("y\n")
        assert terminal.exit_code() == 3
        assert "[y/N]" not in terminal.screen
        assert WAITS in terminal.screen
    assert file.exists()


def test_json_is_never_asked_even_on_a_terminal(folder: AgentFolder, file: Path) -> None:
    with folder.terminal("run", "cleaner", "--json") as terminal:
        assert terminal.exit_code() == 3
    assert file.exists()


def test_on_ask_deny_goes_on_and_says_so(folder: AgentFolder, file: Path) -> None:
    ended = folder.cli("run", "cleaner", "--on-ask", "deny")
    assert (ended.code, ended.err) == (0, "")
    assert '👉 Confirm file_delete {"path": "a.txt"}: denied by policy\n' in ended.out
    assert "📎 file_delete ← Action denied by policy: nobody was asked\n" in ended.out
    assert file.exists()
    (request,) = folder.requests()
    assert request.answer is not None
    assert (request.answer.outcome, request.answer.answered_by) == (Outcome.DENIED, "policy")


def test_on_ask_deny_of_questions_that_are_no_confirmation(folder: AgentFolder) -> None:
    asks = [call("ask_user", question="Name?"), call("ask_user", question="Which?", kind="choice", options=["a", "b"])]
    folder.agent("asker", [{"calls": asks}, {"text": "Done."}])
    ended = folder.cli("run", "asker", "--on-ask", "deny")
    assert (ended.code, ended.err) == (0, "")
    assert "👉 Name?: denied by policy\n" in ended.out
    assert folder.results() == ["Action denied by policy: nobody was asked"] * 2
    assert "👉 Which?: denied by policy\n" in folder.cli("logs", "-e", "1").out


def test_on_ask_fail_aborts(folder: AgentFolder, file: Path) -> None:
    ended = folder.cli("run", "cleaner", "--on-ask", "fail")
    assert ended.code == 4
    assert "🛑 aborted: cancelled by policy (--on-ask fail)" in ended.out
    assert file.exists()
    assert folder.execution().status is Status.ABORTED
    assert folder.cli("pending").out == "Nothing waits for an answer.\n"


def test_a_question_of_resume_is_treated_the_same(folder: AgentFolder, file: Path) -> None:
    assert folder.cli("run", "cleaner").code == 3
    kept = folder.cli("resume", "1")
    assert (kept.code, kept.err) == (3, WAITS)
    assert folder.cli("resume", "1", "--on-ask", "deny").code == 0
    assert file.exists()


def test_respond_without_an_answer_asks_for_flags(folder: AgentFolder, file: Path) -> None:
    assert folder.cli("run", "cleaner").code == 3
    ended = folder.cli("respond", "1")
    assert (ended.code, ended.out) == (2, "")
    assert "--yes, --always, --no, --text, --choice, --edit or --answers" in ended.err
    assert folder.execution().status is Status.WAITING


def until_expired(request: Request) -> None:
    """Waits for the clock itself."""
    deadline = request.expires_at
    assert deadline is not None
    until(lambda: time.time() > deadline)


def test_a_deadline_passes_while_no_process_lives(folder: AgentFolder) -> None:
    file = folder.file("a.txt")
    folder.agent(
        "cleaner",
        [
            {"calls": [call("file_delete", path="a.txt")]},
            {"expect": {"tool": "file_delete", "result": r"^Action denied by user \(timeout\)$"}, "text": "Done."},
        ],
        "confirm_timeout: 1s",
    )
    assert folder.cli("run", "cleaner").code == 3
    (request,) = folder.requests()
    until_expired(request)

    assert folder.cli("pending").out == "Nothing waits for an answer.\n"
    assert folder.execution().status is Status.QUEUED
    late = folder.cli("respond", "1", "--yes")
    assert late.code == 6
    assert "request 1-0.0 expired at 20" in late.err
    assert folder.cli("resume", "1").code == 0
    assert folder.execution().status is Status.SUCCESS
    assert file.exists()


def test_a_late_answer_is_refused_also_when_nobody_looked_before(folder: AgentFolder) -> None:
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}], "confirm_timeout: 1s")
    assert folder.cli("run", "cleaner").code == 3
    (request,) = folder.requests()
    until_expired(request)
    late = folder.cli("respond", "1", "--yes", "--json")
    assert (late.code, late.out) == (6, "")
    assert "(nobody answered in time)" in late.err
    assert (folder.path / "a.txt").exists()

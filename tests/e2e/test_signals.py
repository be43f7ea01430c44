"""Ctrl-C, Ctrl-D and signals, wherever an execution is: nothing is lost, and the process ends at once."""

from __future__ import annotations

import os
import signal
import time

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Outcome, Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.forked_terminal import ForkedTerminal
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.waiting import until

AT_ONCE_S = 2.0
"""Far below the minute that the work would take which is not waited for."""

SLOW = '''
import asyncio, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from langchain_core.tools import tool

def begun():
    Path("begun").touch()

@tool
def slow_sync() -> str:
    """Takes a minute."""
    begun()
    time.sleep(60)
    return "slept"

@tool
async def slow_async() -> str:
    """Takes a minute."""
    begun()
    await asyncio.sleep(60)
    return "slept"

@tool
async def stubborn() -> str:
    """Takes a minute and cannot be cancelled."""
    begun()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            Path("refused").touch()
    return "slept"

@tool
async def blocking() -> str:
    """Blocks its loop for a minute."""
    begun()
    time.sleep(60)
    return "slept"

@tool
def littering() -> str:
    """Leaves a thread that works for a minute."""
    ThreadPoolExecutor().submit(time.sleep, 60)
    return "left"
'''


@pytest.fixture
def working(folder: AgentFolder) -> AgentFolder:
    """Agents that delete, think for a minute, or call one of the tools above."""
    folder.tools("slow", SLOW)
    folder.tools("gates", GATES)
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
    folder.agent("thinker", [{"delay": "1m", "text": "Done."}])
    for tool in ("slow_sync", "slow_async", "stubborn", "blocking", "littering", "gated"):
        folder.agent(tool, [{"calls": [call(tool)]}, {"text": "Done."}], "tools: [slow, gates]")
    return folder


def ends_at_once(terminal: ForkedTerminal) -> int:
    started = time.monotonic()
    code = terminal.exit_code()
    assert time.monotonic() - started < AT_ONCE_S
    return code


def test_ctrl_c_at_the_question_leaves_it_waiting(working: AgentFolder) -> None:
    with working.terminal("run", "cleaner") as terminal:
        terminal.expect("[y/N]: ")
        terminal.send("y\x03\x03")
        assert ends_at_once(terminal) == 130
        assert terminal.screen.endswith("[y/N]: \nexecution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n")
    assert working.execution().status is Status.WAITING
    assert working.cli("respond", "1", "--yes").code == 0


def test_ctrl_d_at_the_question_leaves_it_waiting(working: AgentFolder) -> None:
    with working.terminal("run", "cleaner") as terminal:
        terminal.expect("[y/N]: ")
        terminal.send("\x04")
        assert ends_at_once(terminal) == 3
        assert terminal.screen.endswith("\nexecution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n")
    assert working.execution().status is Status.WAITING


def test_ctrl_c_in_a_model_call_cancels(working: AgentFolder) -> None:
    with working.terminal("run", "thinker") as terminal:
        terminal.expect("▶ Running")
        terminal.send("\x03")
        terminal.expect("cancelling execution 1; press Ctrl-C again to leave at once\n")
        assert ends_at_once(terminal) == 130
        assert f"🛑 aborted: cancelled by {login()}\n" in terminal.screen
    assert working.execution().status is Status.ABORTED


@pytest.mark.parametrize("tool", ["slow_sync", "slow_async", "stubborn", "blocking"])
def test_ctrl_c_in_a_tool_cancels_and_the_call_may_have_run(working: AgentFolder, tool: str) -> None:
    with working.terminal("run", tool) as terminal:
        until_begun(working.path)
        terminal.send("\x03")
        assert ends_at_once(terminal) == 130
    assert working.execution().status is Status.ABORTED
    (result,) = working.results()
    assert "may have run" in result


def test_a_second_ctrl_c_leaves_at_once_and_the_store_is_consistent(working: AgentFolder) -> None:
    with working.terminal("run", "stubborn") as terminal:
        until_begun(working.path)
        terminal.send("\x03")
        until((working.path / "refused").exists)
        terminal.send("\x03")
        assert ends_at_once(terminal) == 130
    resumed = working.cli("resume", "1")
    assert resumed.code == 4
    assert working.execution().status is Status.ABORTED
    (result,) = working.results()
    assert "may have run" in result
    assert working.cli("resume").out == "Nothing to resume.\n"


def test_a_thread_that_a_tool_left_does_not_hold_up_the_end(working: AgentFolder) -> None:
    with working.terminal("run", "littering") as terminal:
        terminal.expect("✅ Done.\n")
        assert ends_at_once(terminal) == 0


def test_ctrl_c_while_following_only_leaves(working: AgentFolder) -> None:
    (working.path / "agents/_config/scripts/cleaner.yaml").write_text(
        'conversations: [{turns: [{calls: [{name: file_delete, args: {path: "a.txt"}}]},'
        " {calls: [{name: gated}]}, {text: Done.}]}]"
    )
    (working.path / "agents/cleaner.md").write_text(
        "---\nmodel: {provider: script, name: cleaner}\ntools: [gates]\n---\nWork.\n"
    )
    with working.terminal("run", "cleaner") as terminal:
        terminal.expect("[y/N]: ")
        driver = working.cli.start("respond", "1", "--yes")
        terminal.expect("Withdrawn: answered elsewhere: approved by ")
        terminal.expect("🔧 gated → {}\n")
        terminal.send("\x03")
        assert ends_at_once(terminal) == 130
        assert terminal.screen.endswith("execution 1 goes on without this terminal: agentmd logs -e 1\n")
    open_gate(working.path)
    assert driver.wait().code == 0
    assert working.execution().status is Status.SUCCESS


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_works_leaves_it_queued(working: AgentFolder, number: signal.Signals) -> None:
    with working.terminal("run", "gated") as terminal:
        until_begun(working.path)
        terminal.signal(number)
        assert ends_at_once(terminal) == 128 + number
        assert terminal.screen.endswith("execution 1 was left as it is; `agentmd resume 1` goes on\n")
    assert working.execution().status is Status.QUEUED
    assert working.execution().attempts == 0
    assert working.cli("resume").out.splitlines()[2].split()[:3] == ["1", "gated", "queued"]
    assert working.cli("resume", "1").code == 0
    (result,) = working.results()
    assert "may have run" in result


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_at_the_question_leaves_it_waiting(working: AgentFolder, number: signal.Signals) -> None:
    with working.terminal("run", "cleaner") as terminal:
        terminal.expect("[y/N]: ")
        terminal.signal(number)
        assert ends_at_once(terminal) == 128 + number
    assert working.execution().status is Status.WAITING


@pytest.mark.parametrize("agent", ["cleaner", "gated"])
def test_a_terminal_that_is_closed_takes_nothing_along(working: AgentFolder, agent: str) -> None:
    with working.terminal("run", agent) as terminal:
        if agent == "gated":
            until_begun(working.path)
        else:
            terminal.expect("[y/N]: ")
        assert terminal.hang_up() == 128 + signal.SIGHUP
    assert working.execution().status is (Status.QUEUED if agent == "gated" else Status.WAITING)
    assert working.execution().worker is None
    assert [path.name for path in (working.path / ".agentmd/workers").iterdir()] == []


def test_sigkill_frees_the_execution_for_the_next(working: AgentFolder) -> None:
    run = working.cli.start("run", "gated")
    until_begun(working.path)
    run.kill()
    assert run.wait().killed
    assert working.execution().status is Status.RUNNING
    assert working.cli("resume", "1").code == 0


def test_cancel_tells_the_process_that_drives(working: AgentFolder) -> None:
    run = working.cli.start("run", "slow_async")
    until_begun(working.path)
    cancelled = working.cli("cancel", "1")
    assert (cancelled.code, cancelled.out) == (0, "Execution 1 is aborted.\n")
    ended = run.wait()
    assert ended.code == 4
    assert f"🛑 aborted: cancelled by {login()}\n" in ended.out


def test_cancel_of_a_process_that_does_not_listen_says_that_it_was_told(working: AgentFolder) -> None:
    run = working.cli.start("run", "slow_async")
    until_begun(working.path)
    os.kill(run.pid, signal.SIGSTOP)
    try:
        cancelled = working.cli("cancel", "1")
        assert (cancelled.code, cancelled.out) == (0, "The process that drives execution 1 was told to cancel it.\n")
    finally:
        os.kill(run.pid, signal.SIGCONT)
    assert run.wait().code == 4


def test_ctrl_c_of_a_watching_list_is_quiet(working: AgentFolder) -> None:
    for args in (("pending", "--watch"), ("logs", "-f")):
        with working.terminal(*args) as terminal:
            terminal.expect("Nothing waits" if "pending" in args else "No executions")
            terminal.send("\x03")
            assert ends_at_once(terminal) == 130
            assert "Traceback" not in terminal.screen


def test_the_answer_of_an_interrupted_prompt_is_not_recorded(working: AgentFolder) -> None:
    with working.terminal("run", "cleaner") as terminal:
        terminal.expect("[y/N]: ")
        terminal.send("y")
        terminal.signal(signal.SIGINT)
        assert ends_at_once(terminal) == 130
    assert working.cli("respond", "1", "--no").code == 0
    (request,) = working.requests()
    assert request.answer is not None
    assert request.answer.outcome is Outcome.DENIED
    assert (working.path / "a.txt").exists()


def test_a_signal_that_is_ignored_from_the_start_stays_ignored(working: AgentFolder) -> None:
    def like_nohup() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    run = working.cli.start("run", "gated", prepare=like_nohup)
    until_begun(working.path)
    run.kill(signal.SIGHUP)
    open_gate(working.path)
    ended = run.wait()
    assert ended.code == 0
    assert ended.out.endswith("gated ✅ Done.\n")

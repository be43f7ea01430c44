"""Processes that a C library forked: they outlive their parent and keep its locks. They are named; nobody takes over."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server, run
from tests.support.waiting import until

FORKING = '''
import ctypes, os, signal
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
def fork_and_die() -> str:
    """As a C library does it: no hook of Python runs in the child."""
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        while True:
            signal.pause()
    (context().workspace / "child").write_text(str(child))
    os.kill(os.getpid(), signal.SIGKILL)
'''


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    made = AgentFolder(tmp_path / "ws")
    made.tools("forking", FORKING)
    made.agent("worker", [{"calls": [call("fork_and_die")]}, {"text": "Done."}], "tools: [forking]")
    return made


def child(folder: AgentFolder) -> int:
    return int((folder.path / "child").read_text())


def end(pid: int) -> None:
    """Ends it, and waits until it is gone."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid))


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_of_a_command(folder: AgentFolder) -> None:
    assert folder.cli("run", "worker").killed
    pid = child(folder)
    try:
        for _ in range(2):
            refused = folder.cli("resume", "1")
            assert refused.code == 6, refused
            assert re.search(
                rf"held by process {pid} .*nobody takes the execution over; end it with `kill {pid}`", refused.err
            )
        for command in (["resume"], ["resume", "--all"]):
            listed = folder.cli(*command)
            assert (listed.code, f"`kill {pid}`" in listed.err) == (0, True), listed
        assert folder.execution().status is Status.RUNNING
    finally:
        end(pid)
    assert folder.cli("resume", "1").code == 0
    assert "may have run" in folder.results()[0]


def test_of_a_server(folder: AgentFolder) -> None:
    with Server(folder.path) as server:
        run(server.client)
        server.process.wait()
    pid = child(folder)
    try:
        started = folder.cli("start")
        assert started.code == 2, started
        assert re.search(
            rf"\(process {server.process.pid}\) has ended, but its lock is still held by process {pid}", started.err
        )
        assert f"end it with `kill {pid}`" in started.err
        status = folder.cli("status")
        assert (status.code, f"`kill {pid}`" in status.err) == (1, True), status
        stopped = folder.cli("stop")
        assert (stopped.code, f"`kill {pid}`" in stopped.err) == (1, True), stopped
        assert folder.cli("resume", "1").code == 6
        folder.agent("asker", [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Asked."}])
        assert folder.cli("run", "asker").code == 3
        answered = folder.cli("respond", "2", "--text", "yes")  # nobody is there to hand it over to
        assert (answered.code, "Asked." in answered.out) == (0, True), answered
    finally:
        end(pid)
    with Server(folder.path):
        until(lambda: folder.execution().status is Status.SUCCESS)
    with folder.store() as store:
        assert store.execution(ExecutionId(1)).output == "Done."

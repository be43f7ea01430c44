"""Tools that are given up and do not end hold threads: with too many of them a process makes room for a new one."""

from __future__ import annotations

import pytest

from agent_md.executions.states import CallOutcome, Status
from agent_md.tools.threads import MOST_ABANDONED
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server, run
from tests.support.waiting import until

pytestmark = pytest.mark.stress  # slow, and about what seldom changes

TOOLS = '''
import os, threading
from langchain_core.tools import tool
from agent_md.sdk import context, tool_options

@tool
@tool_options(timeout=0.3)
def block() -> str:
    """Blocks its thread for good."""
    with (context().workspace / "threads").open("a") as log:
        log.write(f"{threading.active_count()}\\n")
    threading.Event().wait()
    return "never"
'''
AT_ONCE = 11
TURNS = MOST_ABANDONED // AT_ONCE + 2


def prepare(folder: AgentFolder) -> None:
    folder.tools("blocking", TOOLS)
    turns = [{"calls": [call("block")] * AT_ONCE} for _ in range(TURNS)]
    settings = "tools: [blocking]\nsettings: {loop_detection: false, max_tool_calls: 100}"
    folder.agent("blocker", [*turns, {"text": "Done."}], settings)


def test_a_server_starts_anew_and_its_executions_go_on(folder: AgentFolder) -> None:
    prepare(folder)
    with Server(folder.path) as server:
        number = run(server.client, agent="blocker")
        until(lambda: folder.execution(number).status.final, patience=60)
        until(server.client.healthy, patience=60)
        assert server.address["pid"] == server.process.pid
        assert server.stop().code == 0
    execution = folder.execution(number)
    assert (execution.status, execution.output) == (Status.SUCCESS, "Done."), execution
    with folder.store() as store:
        outcomes = [found.outcome for found in store.calls(execution.id)]
    assert outcomes == [CallOutcome.UNKNOWN] * AT_ONCE * TURNS
    counts = [int(line) for line in (folder.path / "threads").read_text().split()]
    assert max(counts) <= MOST_ABANDONED + AT_ONCE + 8  # a new process has few threads again


def test_a_run_ends_and_another_process_goes_on(folder: AgentFolder) -> None:
    prepare(folder)
    ended = folder.cli("run", "blocker")
    assert ended.code == 1
    assert f"execution 1 was given back: {MOST_ABANDONED} threads of tools did not end" in ended.err
    assert folder.execution().status is Status.QUEUED
    assert folder.cli("resume", "1").code == 0
    assert folder.execution().status is Status.SUCCESS

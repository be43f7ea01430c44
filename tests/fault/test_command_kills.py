"""kill -9 while a command runs: all that it started ends, it is never run again, and the model is told that it may have run."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome
from tests.support.agent_folder import AgentFolder, call
from tests.support.waiting import until


def _running(marker: str) -> bool:
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return any(line.startswith(f"sleep {marker}") for line in listed.splitlines())


def test_a_command_ends_with_the_process_that_runs_it(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ws")
    marker = f"{4000 + os.getpid()}"
    line = f"echo x >> ran; trap '' TERM; setsid sleep {marker} & sleep {marker}"
    folder.agent(
        "worker",
        [{"calls": [call("run_command", command=[line], shell=True)]}, {"text": "Done."}],
        "auto_approve: [run_command]",
    )
    running = folder.cli.start("run", "worker")
    until(lambda: _running(marker))
    running.kill()
    assert running.wait().killed
    until(lambda: not _running(marker))
    assert folder.cli("resume", "--all").code == 0
    with folder.store() as store:
        found = store.call(ExecutionId(1), Position(0, 0))
    assert found is not None
    assert found.outcome is CallOutcome.UNKNOWN
    assert (folder.path / "ran").read_text() == "x\n"

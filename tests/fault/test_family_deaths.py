"""A called agent that ends the process that drives it: its deaths are its own, and its parent is told."""

from __future__ import annotations

from pathlib import Path

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call

_MOST_PROCESSES = 8
"""More than are ended before an execution is stopped."""

DEADLY = '''
import os, signal
from langchain_core.tools import tool
from agent_md.sdk import tool_options

@tool
@tool_options(idempotent=True)
def die() -> str:
    """Ends the process."""
    os.kill(os.getpid(), signal.SIGKILL)
    return ""
'''


def test_a_child_that_ends_its_process_is_stopped_and_its_parent_goes_on(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ws")
    folder.tools("deadly", DEADLY)
    calls = [call("run_agent", agent_name="deadly"), call("run_agent", agent_name="calm")]
    folder.agent("coordinator", [{"calls": calls}, {"text": "One of them."}], "agents: [deadly, calm]")
    folder.agent("deadly", [{"calls": [call("die")]}, {"text": "Never."}], "tools: [deadly]")
    folder.agent("calm", [{"text": "Calm."}])
    assert folder.cli("run", "coordinator").killed
    for _ in range(_MOST_PROCESSES):
        ended = folder.cli("resume", "1")
        if not ended.killed:
            break
    assert ended.code == 0, ended
    with folder.store() as store:
        root, *children = store.family(ExecutionId(1))
        results = [found.result or "" for found in store.calls(root.id)]
    by_agent = {child.agent: child for child in children}
    assert (root.status, root.attempts) == (Status.SUCCESS, 0)
    assert (by_agent["deadly"].status, by_agent["calm"].status) == (Status.ERROR, Status.SUCCESS)
    assert "failed: stopped as poisoned" in results[0]
    assert results[1] == "Calm."

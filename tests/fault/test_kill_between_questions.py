"""kill -9 at the writes of the processes that answer a tool's questions, which were all asked at once."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from agent_md import Workspace
from agent_md.executions.states import RequestKind, Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished
from tests.support.snapshots import Snapshot
from tests.support.structured import question

TOOLS = f"""
import asyncio
from langchain_core.tools import tool
from agent_md.sdk import interrupt, request_questions, tool_options

@tool
@tool_options(idempotent=True)
async def publish() -> object:
    \"\"\"Asks twice at once.\"\"\"
    async def ask():
        return request_questions([{question("Where?")!r}])
    async def rate():
        return interrupt({{"type": "rating"}}, response_schema={{"type": "integer"}})
    return await asyncio.gather(ask(), rate())
"""
ANSWERS = {RequestKind.QUESTIONS: {"Where?": "my own"}, RequestKind.CUSTOM: 3}


_STRIDE = 8


def respond(folder: AgentFolder, kill_before_write: int | None = None) -> Finished:
    """Answers the newest open request."""
    request = [request for request in folder.requests() if request.open][-1]
    answers = json.dumps(ANSWERS[request.kind])
    command = ("respond", "1", "--request", request.id, "--answers", answers)
    return folder.cli(*command, kill_before_write=kill_before_write)


def finish(folder: AgentFolder) -> None:
    with Workspace(folder.path) as workspace:
        while workspace.execution(1).status is not Status.SUCCESS:
            for request in workspace.requests(1)[::-1]:
                answer = ANSWERS[request.kind]
                workspace.answer(request, {"answers": answer} if isinstance(answer, dict) else answer)
            assert workspace.resume(1).status in (Status.WAITING, Status.SUCCESS)


def check_killed(tmp_path: Path, killed: int, stride: int) -> None:
    """kill -9 of the process that gives this answer, the first or the second one."""
    folder = AgentFolder(tmp_path / "ws")
    folder.tools("publishing", TOOLS)
    folder.agent("asker", [{"calls": [call("publish")]}, {"text": "Done."}], "tools: [publishing]")
    assert folder.cli("run", "asker").code == 3
    for _ in range(killed):
        assert respond(folder).code == 3
    before = Snapshot(folder.path, tmp_path / "before")
    assert respond(folder).code == (0 if killed else 3)
    writes = folder.cli.writes_of_last()
    assert writes > 20
    for write in range(random.randrange(1, stride + 1), writes + 1, stride):
        before.restore()
        assert respond(folder, write).killed
        finish(folder)
        assert json.loads(folder.results()[0]) == [{"Where?": "my own"}, 3]


@pytest.mark.parametrize("killed", [0, 1])
def test_every_answer_reaches_its_question_once(tmp_path: Path, killed: int) -> None:
    check_killed(tmp_path, killed, _STRIDE)


@pytest.mark.stress
@pytest.mark.parametrize("killed", [0, 1])
def test_every_answer_reaches_its_question_once_wherever_it_is_killed(tmp_path: Path, killed: int) -> None:
    check_killed(tmp_path, killed, 1)

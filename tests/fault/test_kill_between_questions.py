"""kill -9 at the writes of the processes that answer a tool's questions, which were all asked at once."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

import pytest

from agent_md.executions.model import RequestKind, Status
from tests.support.agent_folder import AgentFolder, call
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


def respond(folder: AgentFolder, kill_before_write: int | None = None) -> bool:
    """Answers the newest open request; whether the process was killed."""
    request = [request for request in folder.requests() if request.open][-1]
    answers = json.dumps(ANSWERS[request.kind])
    ended = folder.cli(
        "respond", "1", "--request", request.id, "--answers", answers, kill_before_write=kill_before_write
    )
    assert ended.killed or ended.code in (0, 3), ended
    return ended.killed


@pytest.mark.parametrize("killed", [0, 1])
def test_every_answer_reaches_its_question_once(tmp_path: Path, killed: int) -> None:
    for write in count(2, _STRIDE):
        folder = AgentFolder(tmp_path / f"{write}")
        folder.tools("publishing", TOOLS)
        folder.agent("asker", [{"calls": [call("publish")]}, {"text": "Done."}], "tools: [publishing]")
        assert folder.cli("run", "asker").code == 3
        hit = [respond(folder, write if number == killed else None) for number in range(killed + 1)][killed]
        while folder.execution().status is not Status.SUCCESS:
            if folder.execution().status is Status.WAITING:
                respond(folder)
            else:
                assert folder.cli("resume", "1").code in (0, 3)
        assert json.loads(folder.results()[0]) == [{"Where?": "my own"}, 3]
        if not hit:
            assert write > 2
            return

"""`@tool(return_direct=True)`: the result of the call is the answer, and the model is not asked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.executions.states import EventType, Status
from tests.support.driving import Sink, Turn, Workspace, call, turn

TOOLS = """
    @tool(return_direct=True)
    def report(key: str) -> str:
        '''A report.'''
        return "report " + effect(key)

    @tool(return_direct=True)
    def fails(key: str) -> str:
        '''Fails.'''
        raise ValueError("no")

    @tool(return_direct=True)
    @tool_options(requires_approval=True)
    def asked(key: str) -> str:
        '''Asks.'''
        return "asked " + effect(key)

    @tool(return_direct=True)
    def silent(key: str) -> str:
        '''Says nothing.'''
        effect(key)
        return ""
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools(TOOLS)
    workspace.agent("tools: [kit]")
    yield workspace
    workspace.close()


def started(work: Workspace, *calls: Turn) -> None:
    work.script(turn(*calls, text="Working."), "Said by the model.")
    work.start()


def answer(work: Workspace) -> str | None:
    work.check_succeeded(work.execution.output or "")
    return work.execution.output


def asked_the_model(work: Workspace) -> int:
    return len(work.histories)


def test_the_result_is_the_answer(work: Workspace) -> None:
    started(work, call("report", key="A"))
    assert answer(work) == "report A"
    assert asked_the_model(work) == 1
    kinds = [event.type for event in work.app.store.events(work.execution.id)]
    assert kinds[-4:] == [EventType.TOOL_RESULT, EventType.AI, EventType.FINAL_ANSWER, EventType.COMPLETE]


def test_several_in_one_message_are_the_answer_together_in_their_order(work: Workspace) -> None:
    started(work, call("report", key="A"), call("report", key="B"))
    assert answer(work) == "report A\n\nreport B"


@pytest.mark.parametrize("other", [call("plain", key="B"), call("fails", key="B"), call("report", wrong="B")])
def test_beside_another_tool_or_a_failure_the_model_goes_on(work: Workspace, other: Turn) -> None:
    started(work, call("report", key="A"), other)
    assert answer(work) == "Said by the model."
    assert asked_the_model(work) == 2


def test_an_empty_result_is_no_answer(work: Workspace) -> None:
    started(work, call("silent", key="A"))
    assert answer(work) == "Said by the model."


@pytest.mark.parametrize("restart", [False, True])
def test_a_guarded_call_is_asked_first(work: Workspace, restart: bool) -> None:
    started(work, call("report", key="A"), call("asked", key="B"))
    assert work.execution.status is Status.WAITING
    if restart:
        work.restart(lose_checkpoints=True)
    work.answer(work.the_request(), {"approved": True, "args": {"key": "C"}})
    assert answer(work) == "report A\n\nasked C"
    assert asked_the_model(work) == 1


def test_a_denied_call_is_for_the_model(work: Workspace) -> None:
    started(work, call("asked", key="A"))
    work.answer(work.the_request(), {"approved": False})
    assert answer(work) == "Said by the model."


def test_a_driver_that_dies_behind_the_answer_gives_it_once(work: Workspace) -> None:
    work.script(turn(call("report", key="A")), "Said by the model.")

    def die_once() -> None:
        answers = [event for event in work.events() if event.type is EventType.AI]
        if len(answers) == 2 and not died:
            died.append(True)
            raise RuntimeError("the driver died")

    died: list[bool] = []
    work.start(Sink(die_once))
    assert died
    assert answer(work) == "report A"
    assert work.effects() == {"A": 1}
    assert [event.message for event in work.events() if event.type is EventType.AI] == ["", "report A"]
    assert asked_the_model(work) == 1


def test_the_next_turn_of_the_conversation_has_it_as_what_the_agent_said(work: Workspace) -> None:
    work.script(turn(call("report", key="A")))
    work.start(session_id="s")
    assert answer(work) == "report A"
    work.script("Next.")
    work.start(session_id="s")
    assert [message.type for message in work.histories[-1]] == ["system", "human", "ai", "tool", "ai", "human"]
    assert work.histories[-1][-2].text == "report A"

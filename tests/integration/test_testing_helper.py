"""`agent_md.testing`: custom tools tried without a model, their questions answered from a list."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool, tool
from langgraph.types import interrupt as foreign_interrupt

from agent_md.errors import AnswerRefused
from agent_md.executions.states import CallOutcome, CallState, Outcome, RequestKind
from agent_md.sdk import (
    StepUnknown,
    context,
    interrupt,
    request_choice,
    request_confirmation,
    request_input,
    request_questions,
    step,
    tool_options,
)
from agent_md.testing import approved, arun_tool, chosen, denied, expired, reply, run_tool, text

QUESTION = {
    "question": "Which?",
    "header": "Which",
    "multiSelect": False,
    "options": [{"label": "a", "description": ""}, {"label": "b", "description": ""}],
}
done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


def effect(key: str) -> str:
    done.append(key)
    return f"did {key}"


def asking(way: str) -> BaseTool:
    """Asks three questions, with an effect between them."""

    def body(title: str) -> str:
        if not request_confirmation(f"Publish {title}?"):
            return "no"
        first = step(effect, title)
        name = request_input("Whose name?")
        return f"{first} as {name} in {request_choice('Where?', ['blog', 'shop'])}"

    if way == "sync":

        @tool
        def publish(title: str) -> str:
            """Publishes."""
            return body(title)

        return publish

    @tool("publish")
    async def publish_async(title: str) -> str:
        """Publishes."""
        await asyncio.sleep(0)
        return body(title)

    return publish_async


@pytest.mark.parametrize("way", ["sync", "async"])
class TestAnswers:
    def test_a_call_from_its_first_question_to_its_end(self, way: str) -> None:
        run = run_tool(asking(way), {"title": "A"}, answers=[chosen("shop"), text("Ann"), approved("Publish A")])
        assert (run.result, run.outcome) == ("did A as Ann in shop", CallOutcome.DONE)
        assert [request.message for request in run.questions] == ["Publish A?", "Whose name?", "Where?"]
        assert run.waits_for == ()
        assert run.passes == 4
        (only,) = run.steps
        assert only.function.endswith("effect")
        assert (only.state, only.result) == (CallState.FINISHED, "did A")
        assert done == ["A"]

    def test_without_an_answer_it_waits(self, way: str) -> None:
        run = run_tool(asking(way), {"title": "A"}, answers=[approved(), text("Ann", "another question")])
        assert (run.result, run.outcome) == (None, None)
        assert [request.message for request in run.waits_for] == ["Whose name?"]
        assert (run.passes, done) == (2, ["A"])

    def test_no_and_nobody(self, way: str) -> None:
        for answer, outcome in ((denied(reason="later"), Outcome.DENIED), (expired(), Outcome.EXPIRED)):
            run = run_tool(asking(way), {"title": "A"}, answers=[answer])
            assert run.result == "no"
            assert run.questions[0].answer is not None
            assert run.questions[0].answer.outcome is outcome
        assert done == []

    def test_what_is_not_granted_and_not_caught(self, way: str) -> None:
        run = run_tool(asking(way), {"title": "A"}, answers=[approved(), denied("name")])
        assert (run.result, run.outcome) == ("Action denied by user", CallOutcome.DENIED)
        run = run_tool(asking(way), {"title": "A"}, answers=[approved(), expired("name")])
        assert run.result == "Action denied by user (timeout)"

    def test_an_answer_that_does_not_fit_is_refused(self, way: str) -> None:
        with pytest.raises(AnswerRefused, match="bar"):
            run_tool(asking(way), {"title": "A"}, answers=[approved(), text("Ann"), chosen("bar")])


def test_each_reply_is_used_once() -> None:
    @tool
    def twice() -> str:
        """Asks twice."""
        return f"{request_input('One?')}{request_input('Two?')}"

    run = run_tool(twice, answers=[text("x")])
    assert [request.message for request in run.waits_for] == ["Two?"]
    assert run_tool(twice, answers=[text("x"), text("y")]).result == "xy"
    assert run_tool(twice, answers=[text("x", "Two"), text("y")]).result == "yx"


def test_questions_at_once_of_every_kind() -> None:
    @tool
    async def several() -> Any:
        """Asks at once."""

        async def one(ask: Any) -> Any:
            return ask()

        return await asyncio.gather(
            one(lambda: request_questions([QUESTION])),
            one(lambda: interrupt({"slider": 3})),
            one(lambda: foreign_interrupt({"question": "Old?"})),
        )

    answers = [reply({"answers": {"Which?": "b"}}, "Which"), reply("old", "Old"), reply(7)]
    run = run_tool(several, answers=answers)
    assert run.result == '[{"Which?": "b"}, 7, "old"]'
    assert run.passes == 2
    assert {request.kind for request in run.questions} == {RequestKind.QUESTIONS, RequestKind.CUSTOM}


def test_one_that_requires_approval_asks_first() -> None:
    @tool
    @tool_options(requires_approval=True)
    def danger(key: str) -> str:
        """Guarded."""
        return effect(key)

    assert run_tool(danger, {"key": "a"}).passes == 0
    assert run_tool(danger, {"key": "a"}, answers=[denied()]).outcome is CallOutcome.DENIED
    assert done == []
    run = run_tool(danger, {"key": "a"}, answers=[approved("Confirm danger")])
    assert (run.result, run.passes, done) == ("did a", 1, ["a"])


def test_arguments_that_do_not_fit_are_told_as_the_model_would_be() -> None:
    run = run_tool(asking("sync"), {"titel": "A"})
    assert run.outcome is CallOutcome.REFUSED
    assert run.result is not None
    assert "titel: unknown argument (known: title)" in run.result


def test_errors_and_steps_that_failed() -> None:
    def fail() -> None:
        raise ValueError("not today")

    @tool
    def broken() -> str:
        """Fails in a step."""
        return step(fail)

    run = run_tool(broken)
    assert (run.result, run.outcome) == ("Error: broken failed: ValueError: not today", CallOutcome.FAILED)
    assert run.steps[0].error is not None


def test_a_limit_ends_it_as_unknown() -> None:
    @tool
    async def blocking() -> str:
        """Blocks."""
        step(effect, "a")
        time.sleep(60)
        return ""

    started = time.monotonic()
    run = run_tool(blocking, timeout=0.3)
    assert time.monotonic() - started < 10
    assert run.outcome is CallOutcome.UNKNOWN
    assert run.result is not None
    assert "these steps of it are done" in run.result.lower()


def test_a_step_that_was_cut_is_unknown() -> None:
    def leave() -> None:
        raise SystemExit

    @tool
    def cut() -> str:
        """Leaves in a step, asks, and meets it again."""
        try:
            step(leave)
        except SystemExit:
            pass
        except StepUnknown:
            return "seen"
        return request_input("?")

    assert run_tool(cut, answers=[text("on")]).result == "seen"


def test_where_it_runs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    before = os.getcwd()

    @tool
    def where() -> Any:
        """Says where."""
        here = context()
        return [os.getcwd(), str(here.workspace), str(here.resolve_path("a.txt")), here.agent]

    run = run_tool(where, workspace=tmp_path)
    place = os.path.realpath(tmp_path)
    assert run.result == f'["{place}", "{tmp_path}", "{place}/a.txt", "tester"]'
    assert os.getcwd() == before
    assert not (tmp_path / ".agentmd").exists()


async def test_where_an_event_loop_runs() -> None:
    run = await arun_tool(asking("async"), {"title": "A"}, answers=[denied()])
    assert run.result == "no"

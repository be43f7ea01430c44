"""Answers that are retracted while their execution goes on: nothing runs by them, and the question is asked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.errors import NotRetractable
from agent_md.executions.requests import Request
from agent_md.executions.states import CallOutcome, Outcome, Status
from tests.support.driving import Workspace, call, turn

GUARDED = "tools: [kit]\nconfirm: [danger]"

RACING = """
from pydantic import BaseModel, field_validator

moments = []

class Key(BaseModel):
    key: str

    @field_validator("key")
    @classmethod
    def looked_at(cls, value):
        if moments:
            moments.pop()()
        return value

@tool(args_schema=Key)
def racing(key: str) -> str:
    "Guarded; somebody else acts while its arguments are looked at."
    return "did " + effect(key)
"""

ASKING = """
import asyncio

@tool
async def survey() -> str:
    "Asks two things at once."
    async def one(text):
        return request_input(text)
    names = await asyncio.gather(one("Name?"), one("Town?"))
    step(effect, "surveyed")
    confirmed = request_confirmation("Send it?")
    return f"{' from '.join(names)} {confirmed}"
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


def retract(work: Workspace, request: Request) -> Request:
    """The request that asks again."""
    replaced_by = work.app.store.retract(request.id, by="cli:bob").replaced_by
    return work.app.store.request(replaced_by)


class TestGuardedCall:
    @pytest.fixture
    def asked(self, work: Workspace) -> Workspace:
        work.tools("")
        work.agent(GUARDED)
        work.script(turn(call("danger", key="A"), call("danger", key="B")), "Done.")
        work.start()
        return work

    @pytest.mark.parametrize("lose_checkpoints", [False, True], ids=["restart", "loss"])
    @pytest.mark.parametrize("first", [True, False], ids=["yes then no", "no then yes"])
    def test_the_next_answer_is_the_one_that_counts(
        self, asked: Workspace, first: bool, lose_checkpoints: bool
    ) -> None:
        one, two = asked.open_requests()
        asked.record(one, {"approved": first, "reason": "at first"})
        again = retract(asked, one)
        assert asked.execution.status is Status.WAITING
        asked.restart(lose_checkpoints=lose_checkpoints)
        asked.answer(two, {"approved": True})
        assert (asked.execution.status, asked.effects()) == (Status.WAITING, {"B": 1})
        assert asked.the_request() == again
        asked.restart(lose_checkpoints=lose_checkpoints)
        asked.answer(again, {"approved": not first, "reason": "after all"})
        asked.check_succeeded()
        told = "Action denied by user: after all" if first else "did A"
        assert asked.results_seen() == [told, "did B"]
        assert asked.effects() == ({"B": 1} if first else {"A": 1, "B": 1})

    def test_one_that_goes_on_at_once_waits_for_the_new_answer(self, asked: Workspace) -> None:
        for request in asked.open_requests():
            asked.record(request, {"approved": True})
        again = retract(asked, asked.requests()[0])
        assert asked.execution.status is Status.QUEUED
        asked.go_on()
        assert (asked.execution.status, asked.effects()) == (Status.WAITING, {"B": 1})
        with pytest.raises(NotRetractable):
            asked.app.store.retract(asked.requests()[1].id, by="cli:bob")
        asked.answer(again)
        asked.check_succeeded()
        assert asked.effects() == {"A": 1, "B": 1}

    def test_edited_arguments_go_with_their_answer(self, asked: Workspace) -> None:
        one, two = asked.open_requests()
        asked.record(one, {"approved": True, "args": {"key": "X"}})
        again = retract(asked, one)
        asked.record(two, {"approved": False})
        asked.answer(again)
        asked.check_succeeded()
        assert asked.effects() == {"A": 1}

    def test_after_several_retractions_a_change_of_the_source_is_asked_too(self, asked: Workspace) -> None:
        one, two = asked.open_requests()
        asked.record(two, {"approved": False})
        request = one
        for _ in range(2):
            asked.record(request, {"approved": True})
            request = retract(asked, request)
        asked.record(request, {"approved": True})
        asked.restart(meanwhile=lambda: asked.tools("# changed") and None)
        asked.go_on()
        last = asked.the_request()
        assert "was changed since this was approved" in last.message
        assert [r.id for r in asked.requests() if r.position == one.position] == [
            *(one.id, f"{one.id}-again1", f"{one.id}-again2", f"{one.id}-again3")
        ]
        with pytest.raises(NotRetractable):
            asked.app.store.retract(request.id, by="cli:bob")
        asked.answer(last)
        asked.check_succeeded()
        assert asked.effects() == {"A": 1}


class TestBetweenTheAnswerAndTheStart:
    """The driver has read the answer, and is about to act on it."""

    @pytest.fixture
    def asked(self, work: Workspace) -> Workspace:
        work.tools(RACING)
        work.agent("tools: [kit]\nconfirm: [racing]")
        work.script(turn(call("racing", key="A")), "Done.")
        work.start()
        return work

    def test_the_retraction_wins(self, asked: Workspace) -> None:
        first = asked.the_request()
        asked.record(first, {"approved": True})
        asked.module().moments.append(lambda: retract(asked, first))
        asked.go_on()
        assert (asked.execution.status, asked.effects()) == (Status.WAITING, {})
        asked.answer(asked.the_request())
        asked.check_succeeded()
        assert asked.effects() == {"A": 1}

    def test_the_next_answer_wins_too(self, asked: Workspace) -> None:
        first = asked.the_request()
        asked.record(first, {"approved": True})
        asked.module().moments.append(lambda: asked.record(retract(asked, first), {"approved": False}))
        asked.go_on()
        asked.check_succeeded()
        assert asked.effects() == {}
        assert asked.results_seen() == ["Action denied by user"]

    def test_arguments_that_are_refused_since_are_no_end_of_it(self, asked: Workspace) -> None:
        first = asked.the_request()
        asked.record(first, {"approved": True})

        def refuse() -> None:
            retract(asked, first)
            raise ValueError("not any more")

        asked.module().moments.append(refuse)
        asked.go_on()
        assert asked.execution.status is Status.WAITING
        assert [found.outcome for found in asked.calls()] == [None]
        asked.answer(asked.the_request(), {"approved": False})
        asked.check_succeeded()


class TestQuestionsOfATool:
    @pytest.fixture
    def asked(self, work: Workspace) -> Workspace:
        work.tools(ASKING)
        work.agent("tools: [kit]")
        work.script(turn(call("survey")), "Done.")
        work.start()
        return work

    @pytest.mark.parametrize("lose_checkpoints", [False, True], ids=["restart", "loss"])
    def test_each_gets_the_answer_that_counts(self, asked: Workspace, lose_checkpoints: bool) -> None:
        name, town = sorted(asked.open_requests(), key=lambda request: request.message)
        asked.record(name, {"text": "Ann"})
        again = retract(asked, name)
        asked.record(town, {"text": "Rome"})
        asked.restart(lose_checkpoints=lose_checkpoints)
        asked.go_on()
        assert asked.the_request() == again
        assert asked.effects() == {}
        asked.record(again, {"text": "Bob"})
        again = retract(asked, again)
        asked.restart(lose_checkpoints=lose_checkpoints)
        asked.answer(again, {"text": "Cid"})
        assert asked.effects() == {"surveyed": 1}
        asked.answer(asked.the_request(), {"approved": True})
        asked.check_succeeded()
        assert asked.result() == "Cid from Rome True"
        assert asked.effects() == {"surveyed": 1}

    def test_what_the_call_ran_after_cannot_be_retracted(self, asked: Workspace) -> None:
        first, second = asked.open_requests()
        asked.record(first, {"text": "x"})
        asked.answer(second, {"text": "y"})
        last = asked.the_request()
        assert asked.execution.status is Status.WAITING
        for used in (first, second):
            with pytest.raises(NotRetractable):
                asked.app.store.retract(used.id, by="cli:bob")
        asked.record(last, {"approved": True})
        asked.answer(retract(asked, last), {"approved": False})
        asked.check_succeeded()
        assert asked.result() == "x from y False"
        assert [found.outcome for found in asked.calls()] == [CallOutcome.DONE]


def test_an_end_cancels_the_new_question(work: Workspace) -> None:
    work.tools("")
    work.agent(GUARDED)
    work.script(turn(call("danger", key="A")), "Done.")
    work.start()
    first = work.the_request()
    work.record(first, {"approved": True})
    again = retract(work, first)
    work.app.store.request_cancel(work.execution.id, "cli:ann")
    claim = work.app.store.claim_to_cancel(work.execution.id, work.app.worker)
    assert claim is not None
    work.drive(claim)
    assert work.execution.status is Status.ABORTED
    decided = work.app.store.request(again.id).answer
    assert decided is not None
    assert decided.outcome is Outcome.CANCELLED
    assert work.effects() == {}

"""Structured questions and custom requests in the real App, over restarts: of the model, and of tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from agent_md.executions.requests import Request
from agent_md.executions.session_interrupts import answer_from_view, interrupt_view
from agent_md.executions.states import CallOutcome, Outcome, RequestKind, RequestSource
from agent_md.ports.store import NewAnswer
from tests.support.driving import Workspace, call, turn
from tests.support.gemini import GeminiServer, calls, text
from tests.support.structured import DATABASE, FEATURES, option, question

ANSWERS = {"Which database?": "SQLite", "Which features?": ["Search", "mine"]}
BOTH = pytest.mark.parametrize("way", ["def", "async def"])


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


def start(work: Workspace, body: str, *, way: str = "def") -> None:
    """An agent that makes one call, of a tool with this body."""
    source = f'import asyncio\n@tool\n{way} it() -> object:\n    """It."""\n{indent(body.strip(chr(10)), "    ")}'
    work.tools(source)
    work.agent("tools: [kit]")
    work.script(turn(call("it")), "Done.")
    work.start()


def start_asking(work: Workspace, *questions: Any) -> None:
    """An agent whose model asks these questions."""
    work.agent("")
    work.script(turn(call("ask_user_question", questions=list(questions))), "Done.")
    work.start()


class TestAskUserQuestion:
    def test_one_request_for_all_questions_and_one_result(self, work: Workspace) -> None:
        start_asking(work, DATABASE, FEATURES)
        request = work.the_request()
        assert (request.kind, request.source) == (RequestKind.QUESTIONS, RequestSource.TOOL)
        assert request.questions == (DATABASE, FEATURES)
        assert request.message == "Which database? / Which features?"
        work.restart(lose_checkpoints=True)
        work.answer(response={"answers": ANSWERS})
        work.check_succeeded()
        assert json.loads(work.result()) == ANSWERS

    @pytest.mark.parametrize(
        "questions",
        [
            [],
            [DATABASE, DATABASE],
            [question("Which?", option("A"))],
            [question(f"{number}?") for number in range(5)],
            [question("Which?", option("A", markdown="x" * 16_384), option("B"))],
            "Which?",
        ],
        ids=lambda questions: str(questions)[:30],
    )
    def test_a_call_that_breaks_the_schema_goes_back_to_the_model(self, work: Workspace, questions: Any) -> None:
        work.agent("")
        asked = turn(call("ask_user_question", questions=questions))
        work.script(asked, turn(call("ask_user_question", questions=[DATABASE])), "Done.")
        work.start()
        assert work.result().startswith("Error: Invalid arguments for ask_user_question: questions")
        assert work.calls()[0].outcome is CallOutcome.REFUSED
        work.answer(response={"answers": {"Which database?": "Postgres"}})
        work.check_succeeded()
        assert work.result(turn=1) == '{"Which database?": "Postgres"}'

    @pytest.mark.parametrize(
        ("outcome", "text"),
        [(Outcome.DENIED, "Action denied by user"), (Outcome.EXPIRED, "Action denied by user (timeout)")],
    )
    def test_what_is_not_answered_is_a_result(self, work: Workspace, outcome: Outcome, text: str) -> None:
        start_asking(work, DATABASE)
        work.app.store.record_answers([NewAnswer(work.the_request().id, outcome, None)], by="somebody")
        work.restart()
        work.go_on()
        work.check_succeeded()
        assert (work.result(), work.calls()[0].outcome) == (text, CallOutcome.DONE)

    def test_the_same_answer_in_another_form_is_the_same(self, work: Workspace) -> None:
        start_asking(work, FEATURES, DATABASE)
        request = work.the_request()
        work.record(request, {"answers": {"Which features?": "Export", "Which database?": ["mine"]}})
        work.record(request, {"answers": {"Which database?": "mine", "Which features?": ["Export"]}})
        work.go_on()
        assert json.loads(work.result()) == {"Which features?": ["Export"], "Which database?": "mine"}


class TestGemini:
    def test_it_is_told_all_fields_and_the_answers_come_back(self, tmp_path: Path) -> None:
        asked = calls(("ask_user_question", {"questions": [DATABASE, FEATURES]}, None))
        with GeminiServer([asked, text("Done.")]) as server:
            work = Workspace(tmp_path / "ws", environ={"GOOGLE_API_KEY": "test-key"})
            work.agent("", model=f"{{provider: google, name: gemini-2.5-flash, base_url: '{server.url}'}}")
            work.start()
            work.restart(lose_checkpoints=True)
            work.answer(response={"answers": ANSWERS})
            work.check_succeeded()
            assert json.loads(work.result()) == ANSWERS
            work.close()
        (declared,) = server.requests[0].body["tools"]
        (it,) = [each for each in declared["functionDeclarations"] if each["name"] == "ask_user_question"]
        inner = it["parameters"]["properties"]["questions"]["items"]
        assert set(inner["required"]) == set(DATABASE) - {"multiSelect"}
        assert set(inner["properties"]) == set(DATABASE)
        assert set(inner["properties"]["options"]["items"]["required"]) == {"label", "description"}


ASK = f"return request_questions({[DATABASE, FEATURES]!r})"
GATHERED = f"""
async def ask(name):
    return request_questions([{question("Q")!r} | {{"question": name}}])
async def rate(name):
    return interrupt({{"type": "rating", "of": name}}, response_schema={{"type": "integer"}})
names = ["one", "two"]
if (context().workspace / "flip").exists():
    names.reverse()
found = await asyncio.gather(*(ask(name) for name in names), *(rate(name) for name in names))
return [sorted(map(str, found[:2])), dict(zip(names, found[2:]))]
"""


def known_as(request: Request) -> str:
    return str(request.payload["of"]) if request.payload else f"{request.message}?"


RESPONSES: dict[str, Any] = {
    "one?": {"answers": {"one": "A"}},
    "two?": {"answers": {"two": "mine"}},
    "one": 1,
    "two": 2,
}


class TestRequestsOfTools:
    @BOTH
    def test_questions(self, work: Workspace, way: str) -> None:
        start(work, ASK, way=way)
        assert work.the_request().questions == (DATABASE, FEATURES)
        work.restart(lose_checkpoints=True)
        work.answer(response={"answers": ANSWERS})
        work.check_succeeded()
        assert json.loads(work.result()) == ANSWERS

    @pytest.mark.parametrize("order", [*permutations(sorted(RESPONSES))][::5])
    def test_several_at_once_each_with_its_own_id_and_answer(self, work: Workspace, order: tuple[str, ...]) -> None:
        start(work, GATHERED, way="async def")
        requests = {known_as(request): request for request in work.open_requests()}
        assert set(requests) == set(RESPONSES)
        assert len({request.id for request in requests.values()}) == 4
        for number, name in enumerate(order):
            (work.folder / "flip").unlink(missing_ok=True)
            if number % 2:
                work.write("flip")
            work.restart(lose_checkpoints=number == 2)
            work.answer(requests[name], RESPONSES[name])
            assert len(work.open_requests()) == 3 - number
        work.check_succeeded()
        assert json.loads(work.result()) == [["{'one': 'A'}", "{'two': 'mine'}"], {"one": 1, "two": 2}]

    def test_a_custom_request_keeps_its_payload_and_type(self, work: Workspace) -> None:
        start(work, "return interrupt({'type': 'slider', 'title': {'de': 'Größe'}, 'of': [1, None, 2.5]})")
        request = work.the_request()
        assert request.payload == {"type": "slider", "title": {"de": "Größe"}, "of": [1, None, 2.5]}
        assert request.message == "slider request"
        assert interrupt_view(request, work.calls()[0])["type"] == "slider"

    @pytest.mark.parametrize(
        ("payload", "message"),
        [
            ({"message": {"de": "x"}, "prompt": "How many?"}, "How many?"),
            ({"message": " ", "type": "slider"}, "slider request"),
            ({"type": ["x"]}, "custom request"),
            ({}, "custom request"),
        ],
    )
    def test_what_stands_for_a_custom_request(self, work: Workspace, payload: dict[str, Any], message: str) -> None:
        start(work, f"return interrupt({payload!r})")
        assert work.the_request().message == message


class TestViews:
    """The view of a stored request, made with the stored call that asks."""

    def test_a_confirmation_of_ask_user_and_one_of_a_tool(self, work: Workspace) -> None:
        work.tools('@tool\ndef it(page: str) -> object:\n    """It."""\n    return request_confirmation("Publish?")\n')
        work.agent("tools: [kit]")
        work.script(turn(call("it", page="a"), call("ask_user", question="Sure?", kind="confirm")), "Done.")
        work.start()
        views = {}
        for request in work.open_requests():
            (asking,) = [each for each in work.calls() if each.position == request.position]
            views[request.message] = interrupt_view(request, asking)
            value = {"approved": True} if request.message == "Publish?" else {"answers": {"Sure?": "No"}}
            work.record(request, answer_from_view(request, asking, value))
        work.go_on()
        work.check_succeeded()
        called = {"tool_name": "it", "tool_args": {"page": "a"}}
        assert views["Publish?"]["payload"] == {"type": "tool_approval", **called, "message": "Publish?"}
        assert views["Sure?"]["type"] == "user_input"
        assert (work.result(0), work.result(1)) == ("true", "No")

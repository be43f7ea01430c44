"""Structured questions: which are refused, what answers them, and what the model is told."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from agent_md.errors import AnswerRefused, InvalidArguments
from agent_md.executions.answers import validate_response
from agent_md.executions.json_values import PAYLOAD_LIMIT, json_size
from agent_md.executions.questions import QUESTIONS_SCHEMA, checked_questions, read_answers
from agent_md.executions.states import Outcome, RequestKind
from agent_md.sdk import Pause, RequestDenied, RequestExpired, request_questions
from agent_md.tools.ask_user_question import AskUserQuestion
from agent_md.tools.base import declaration
from tests.support.call_context import FakeCall, answered, running_call
from tests.support.samples import ask
from tests.support.structured import DATABASE, FEATURES, option, question


def changed(**fields: Any) -> list[dict[str, Any]]:
    """One good question with other fields; a field that is ... is left out."""
    return [{name: value for name, value in (DATABASE | fields).items() if value is not ...}]


def with_option(**fields: Any) -> list[dict[str, Any]]:
    given = {"label": "SQLite", "description": "One file"} | fields
    return changed(options=[{k: v for k, v in given.items() if v is not ...}, option("Postgres")])


BAD: list[tuple[Any, str]] = [
    ([], "questions: has 0, expected 1 to 4"),
    ([question(f"{n}?") for n in range(5)], "questions: has 5, expected 1 to 4"),
    ([DATABASE, DATABASE], "questions: two have the question 'Which database?', each needs its own"),
    ([DATABASE, question("Which database? ")], "two have the question"),
    (["Which?"], "questions[0]: is 'Which?', expected an object with question, header, multiSelect, options"),
    ([None], "questions[0]: is None"),
    (changed(question=...), "questions[0].question: is missing"),
    (changed(question=" "), "questions[0].question: is empty"),
    (changed(question=7), "questions[0].question: is 7, expected a text"),
    (changed(question=None), "questions[0].question: is None, expected a text"),
    (changed(question="x" * 2001), "questions[0].question: has 2001 characters, at most 2000 are allowed"),
    (changed(header=...), "questions[0].header: is missing"),
    (changed(header=""), "questions[0].header: is empty"),
    (changed(header="x" * 61), "questions[0].header: has 61 characters"),
    (changed(multiSelect="false"), "questions[0].multiSelect: is 'false', expected true or false"),
    (changed(multiSelect=None), "questions[0].multiSelect: is None"),
    (changed(multiSelect=1), "questions[0].multiSelect: is 1"),
    (changed(options=...), "questions[0].options: is missing"),
    (changed(options="SQLite"), "questions[0].options: is str, expected a list"),
    (changed(options=None), "questions[0].options: is NoneType"),
    (changed(options=[option("A")]), "questions[0].options: has 1, expected 2 to 4"),
    (changed(options=[option(str(n)) for n in range(5)]), "questions[0].options: has 5, expected 2 to 4"),
    (changed(options=[option("A"), option("A")]), "questions[0].options: two have the label 'A'"),
    (changed(options=[option("A"), option("A ")]), "two have the label 'A'"),
    (changed(options=["SQLite", "Postgres"]), "questions[0].options[0]: is 'SQLite', expected an object with label"),
    (changed(kind="choice"), "questions[0].kind: unknown field (known: question, header, multiSelect, options)"),
    (with_option(label=...), "questions[0].options[0].label: is missing"),
    (with_option(label=" "), "questions[0].options[0].label: is empty"),
    (with_option(label="x" * 201), "questions[0].options[0].label: has 201 characters"),
    (with_option(description=...), "questions[0].options[0].description: is missing"),
    (with_option(description=None), "questions[0].options[0].description: is None"),
    (with_option(description="x" * 2001), "questions[0].options[0].description: has 2001 characters"),
    (with_option(markdown=["x"]), "questions[0].options[0].markdown: is ['x'], expected a text"),
    (with_option(value=1), "questions[0].options[0].value: unknown field (known: label, description, markdown)"),
    (with_option(description="\ud800"), "questions: it has half a surrogate pair"),
    (with_option(markdown="é" * 8192), "bytes as JSON, at most 16384 are allowed"),
    (json.loads("[" * 200 + "]" * 200), "nested deeper than 64"),
]


@pytest.mark.parametrize(("questions", "why"), BAD, ids=lambda value: str(value)[:40])
def test_what_cannot_be_asked_goes_back_with_the_place_and_an_example(questions: Any, why: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        AskUserQuestion().validate({"questions": questions})
    assert str(refused.value).startswith("Invalid arguments for ask_user_question: questions")
    assert why in str(refused.value)
    assert 'ask like this: {"questions": [' in str(refused.value)
    with running_call(FakeCall()) as call, pytest.raises(ValueError, match="questions") as raised:
        request_questions(questions)
    assert why in str(raised.value)
    assert call.asked == []


def test_without_a_word_about_several_options_one_is_picked() -> None:
    asked = {name: value for name, value in DATABASE.items() if name != "multiSelect"}
    (question,) = AskUserQuestion().validate({"questions": [asked]})["questions"]
    assert question == {**DATABASE, "multiSelect": False}
    assert "multiSelect" not in QUESTIONS_SCHEMA["items"]["required"]
    assert read_answers([question], {"answers": {"Which database?": "SQLite"}}) == {"Which database?": "SQLite"}


@pytest.mark.parametrize("questions", [None, "Which?", {"question": "Which?"}, 7])
def test_what_is_no_list(questions: Any) -> None:
    with pytest.raises(InvalidArguments, match="expected a list of questions"):
        AskUserQuestion().validate({"questions": questions})
    with running_call(FakeCall()), pytest.raises(TypeError, match="expected a list of questions"):
        request_questions(questions)


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({}, "questions: is missing"),
        ({"questions": [DATABASE], "answers": {}}, "answers: unknown argument (known: questions)"),
        ({"question": "Which?"}, "questions: is missing"),
    ],
)
def test_other_arguments(args: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        AskUserQuestion().validate(args)
    assert why in str(refused.value)


def test_the_example_in_the_refusal_can_be_asked() -> None:
    with pytest.raises(InvalidArguments) as refused:
        AskUserQuestion().validate({"questions": []})
    example = str(refused.value).partition("ask like this: ")[2]
    AskUserQuestion().validate(json.loads(example))


def test_many_mistakes_are_named_up_to_a_bound() -> None:
    with pytest.raises(ValueError, match="questions") as raised:
        checked_questions([{"options": [{}, {}, {}, {}]}] * 4)
    assert str(raised.value).endswith("more")
    assert len(str(raised.value)) < 1000


def test_the_bound_is_in_bytes_of_the_stored_json() -> None:
    empty = [question("Q", option("A", markdown="x"), option("B"))]
    room = PAYLOAD_LIMIT - json_size(empty) + 1
    fits = [question("Q", option("A", markdown="x" * room), option("B"))]
    assert json_size(list(checked_questions(fits))) == PAYLOAD_LIMIT
    with pytest.raises(ValueError, match="they have 16385 bytes"):
        checked_questions([question("Q", option("A", markdown="x" * (room + 1)), option("B"))])
    with pytest.raises(ValueError, match="they have 16385 bytes"):
        checked_questions([question("Q", option("A", markdown="é" + "x" * (room - 1)), option("B"))])


def test_checked_twice_they_stay_the_same_and_empty_previews_are_none() -> None:
    given = [question("Q", option("A", markdown=None), option("B", markdown="")), DATABASE, FEATURES]
    before = copy.deepcopy(given)
    args = AskUserQuestion().validate({"questions": given})
    assert args["questions"][0] == question("Q", option("A"), option("B"))
    assert args["questions"][1:] == [DATABASE, FEATURES]
    assert AskUserQuestion().validate(args) == args
    assert given == before


def schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for inner in [schema.get("items"), *schema.get("properties", {}).values()]:
            yield from schemas(inner)


def test_the_declared_schema_is_plain_and_every_accepted_call_fits_it() -> None:
    declared = declaration(AskUserQuestion())["function"]["parameters"]
    assert json.loads(json.dumps(declared)) == declared
    jsonschema.Draft202012Validator.check_schema(declared)
    plain = {"type", "properties", "required", "items", "description"}
    bounds = {"minItems", "maxItems", "minLength", "maxLength"}
    for schema in schemas(QUESTIONS_SCHEMA):
        assert set(schema) <= plain | bounds
        assert isinstance(schema["type"], str)
    jsonschema.validate(AskUserQuestion().validate({"questions": [DATABASE, FEATURES]}), declared)


# Answers


def answer(*questions: dict[str, Any], **answers: Any) -> Any:
    request = ask(RequestKind.QUESTIONS, questions=questions)
    outcome, value = validate_response(request, {"answers": answers})
    assert outcome is Outcome.ANSWERED
    return value["answers"]


ONE, SOME = question("one"), question("some", option("A"), option("B"), option("C"), multi=True)


@pytest.mark.parametrize(
    ("answers", "kept"),
    [
        ({"one": "A", "some": ["B"]}, {"one": "A", "some": ["B"]}),
        ({"some": "B", "one": "my own"}, {"one": "my own", "some": ["B"]}),
        ({"one": ["A"], "some": ["C", "own", "A"]}, {"one": "A", "some": ["A", "C", "own"]}),
    ],
)
def test_answers_are_kept_in_one_form(answers: dict[str, Any], kept: dict[str, Any]) -> None:
    assert answer(ONE, SOME, **answers) == kept
    assert list(answer(ONE, SOME, **answers)) == ["one", "some"]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ({"one": "A"}, "'some' has no answer"),
        ({}, "'one' has no answer"),
        ({"one": "A", "some": "B", "two": "C"}, "'two' is not one of the questions: 'one', 'some'"),
        ({"one": ["A", "B"], "some": "B"}, "'one' takes one answer, not 2"),
        ({"one": [], "some": "B"}, "'one' is empty"),
        ({"one": "A", "some": []}, "'some' is empty: give the label of an option, or a text of your own"),
        ({"one": "A", "some": ["B", " "]}, "'some' is empty"),
        ({"one": "", "some": "B"}, "'one' is empty"),
        ({"one": " \n", "some": "B"}, "'one' is empty"),
        ({"one": "A", "some": ["B", "B"]}, "'some' has the same answer twice"),
        ({"one": None, "some": "B"}, "'one' is None, expected a text"),
        ({"one": True, "some": "B"}, "'one' is True, expected a text"),
        ({"one": 1, "some": "B"}, "'one' is 1, expected a text"),
        ({"one": "A", "some": {"B": True}}, "expected a text or a list of texts"),
        ({"one": "A", "some": ["B", 1]}, "expected a text or a list of texts"),
        ({"one": "A", "some": [["B"]]}, "expected a text or a list of texts"),
    ],
)
def test_answers_that_are_refused(answers: dict[str, Any], why: str) -> None:
    with pytest.raises(AnswerRefused) as refused:
        answer(ONE, SOME, **answers)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "response",
    [None, {}, [], "A", {"one": "A"}, {"answers": None}, {"answers": ["A"]}, {"answers": {"one": "A"}, "x": 1}],
)
def test_responses_that_are_no_answers(response: Any) -> None:
    with pytest.raises(AnswerRefused):
        validate_response(ask(RequestKind.QUESTIONS, questions=(ONE,)), response)


# What the tool and the SDK make of it


def told(call: FakeCall, *questions: dict[str, Any]) -> str:
    tool = AskUserQuestion()
    args = tool.validate({"questions": list(questions)})
    with running_call(call):
        return asyncio.run(tool.run(args, tool.plan(args)))


def test_the_model_is_told_the_answers_by_question() -> None:
    answers = {"Which database?": "mein Vorschlag: Öl", "Which features?": ["Über"]}
    result = told(FakeCall([answered({"answers": answers})]), DATABASE, FEATURES)
    assert result == '{"Which database?": "mein Vorschlag: Öl", "Which features?": ["Über"]}'


@pytest.mark.parametrize(
    ("outcome", "value", "text"),
    [
        (Outcome.DENIED, None, "Action denied by user"),
        (Outcome.DENIED, {"reason": "no time"}, "Action denied by user: no time"),
        (Outcome.EXPIRED, None, "Action denied by user (timeout)"),
        (Outcome.CANCELLED, None, "Not executed: the execution was cancelled"),
    ],
)
def test_what_was_not_answered_is_said(outcome: Outcome, value: Any, text: str) -> None:
    assert told(FakeCall([(outcome, value)]), DATABASE) == text


def test_the_request() -> None:
    call = FakeCall()
    with pytest.raises(Pause):
        told(call, DATABASE, FEATURES)
    message = "Which database? / Which features?"
    assert call.asked == [(RequestKind.QUESTIONS, message, {"questions": (DATABASE, FEATURES)})]


@pytest.mark.parametrize(("outcome", "error"), [(Outcome.DENIED, RequestDenied), (Outcome.EXPIRED, RequestExpired)])
def test_a_tool_that_asks_is_told_by_an_exception(outcome: Outcome, error: type[Exception]) -> None:
    with running_call(FakeCall([(outcome, None)])), pytest.raises(error):
        request_questions([DATABASE])

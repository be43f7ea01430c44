"""Whatever a client picks from a view is a valid answer to the request, and the right one."""

from __future__ import annotations

from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from agent_md.errors import AnswerRefused
from agent_md.executions.answers import validate_response
from agent_md.executions.calls import Call
from agent_md.executions.positions import Position
from agent_md.executions.questions import QUESTIONS_SCHEMA, checked_questions
from agent_md.executions.requests import Request
from agent_md.executions.session_interrupts import answer_from_view, interrupt_view
from agent_md.executions.states import CallState, Decision, Outcome, RequestKind
from tests.support.samples import ask, guard

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WORDS = TEXTS.filter(str.strip)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
LABELS = st.lists(WORDS, min_size=2, max_size=4, unique_by=str.strip)
OPTIONS = LABELS.flatmap(
    lambda labels: st.tuples(
        *(
            st.fixed_dictionaries({"label": st.just(label), "description": TEXTS}, optional={"markdown": WORDS})
            for label in labels
        )
    ).map(list)
)
QUESTION = st.fixed_dictionaries({"question": WORDS, "header": WORDS, "multiSelect": st.booleans(), "options": OPTIONS})
QUESTIONS = st.lists(QUESTION, min_size=1, max_size=4, unique_by=lambda question: question["question"].strip())
ASKING = Call(Position(0, 0), "c1", "ask_user", {}, Decision.RUN, None, CallState.PAUSED, 1)

USER_INPUT = st.one_of(
    st.builds(lambda text: ask(RequestKind.INPUT, text), TEXTS),
    st.builds(lambda text: ask(RequestKind.CONFIRM, text), TEXTS),
    st.builds(
        lambda text, labels, multi: ask(RequestKind.CHOICE, text, options=tuple(labels), multi=multi),
        TEXTS,
        LABELS,
        st.booleans(),
    ),
    st.builds(lambda questions: ask(RequestKind.QUESTIONS, questions=tuple(questions)), QUESTIONS),
)


def own_answer(draw: st.DrawFn, request: Request, question: dict[str, Any]) -> str | list[str]:
    """What a person may answer to one question of a view."""
    labels = [option["label"] for option in question["options"]]
    if not labels:
        return draw(TEXTS)
    answers = st.sampled_from(labels)
    if request.kind is RequestKind.QUESTIONS:
        answers |= WORDS
    if question["multiSelect"]:
        return draw(st.lists(answers, min_size=1, max_size=4, unique=True))
    return draw(answers)


@given(USER_INPUT, st.data())
def test_what_is_picked_from_a_view_comes_back_from_the_response(request_: Request, data: st.DataObject) -> None:
    view = interrupt_view(request_, ASKING)
    assert view["type"] == view["payload"]["type"] == "user_input"
    picked = {
        question["question"]: own_answer(data.draw, request_, question) for question in view["payload"]["questions"]
    }
    outcome, value = validate_response(request_, answer_from_view(request_, ASKING, {"answers": picked}))
    (only,) = picked.values() if len(picked) == 1 else ([],)
    match request_.kind:
        case RequestKind.INPUT:
            assert value == {"text": only}
        case RequestKind.CHOICE:
            assert sorted(value["selected"]) == sorted(only if isinstance(only, list) else [only])
        case RequestKind.CONFIRM:
            assert (outcome is Outcome.APPROVED, value["approved"]) == (only == "Yes", only == "Yes")
        case _:
            kept = {text: sorted(given) if isinstance(given, list) else given for text, given in picked.items()}
            got = value["answers"].items()
            assert {text: sorted(given) if isinstance(given, list) else given for text, given in got} == kept


@given(USER_INPUT | st.just(guard()), JSON)
def test_other_values_are_refused_and_never_approve(request_: Request, value: Any) -> None:
    try:
        response = answer_from_view(request_, ASKING, value)
    except AnswerRefused:
        return
    outcome, _ = validate_response(request_, response)
    if outcome is Outcome.APPROVED:
        assert value in ({"approved": True}, {"answers": {request_.message: "Yes"}})


@given(QUESTIONS)
def test_good_questions_are_kept_and_fit_the_schema_that_models_are_told(questions: list[dict[str, Any]]) -> None:
    checked = checked_questions(questions)
    assert list(checked) == questions
    jsonschema.validate(list(checked), QUESTIONS_SCHEMA)


@given(
    st.lists(QUESTION | JSON | st.dictionaries(st.sampled_from(["question", "header", "options"]), JSON), max_size=5)
)
def test_any_other_value_is_refused_in_words(questions: list[Any]) -> None:
    try:
        checked = checked_questions(questions)
    except ValueError as error:
        refused = str(error)
    else:
        jsonschema.validate(list(checked), QUESTIONS_SCHEMA)
        assert checked_questions(checked) == checked
        return
    assert refused.startswith("questions")

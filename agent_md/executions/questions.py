"""Structured questions: validates questions and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent_md.errors import AnswerRefused
from agent_md.executions.json_values import MAX_DEPTH, PAYLOAD_LIMIT, brief, is_too_deep, json_size

__all__ = ["QUESTIONS_SCHEMA", "Answers", "checked_questions", "read_answers"]

Answers = dict[str, str | list[str]]
"""From each question to its answer: a label or an own text, with `multiSelect` a list of them."""

_QUESTIONS = (1, 4)
_OPTIONS = (2, 4)
_LONGEST = {"question": 2000, "header": 60, "label": 200, "description": 2000, "markdown": PAYLOAD_LIMIT}
_QUESTION_FIELDS = ("question", "header", "multiSelect", "options")
_OPTION_FIELDS = ("label", "description", "markdown")
_MAY_BE_EMPTY = ("description", "markdown")
_MAY_BE_MISSING = ("multiSelect", "markdown")
_SHOWN_PROBLEMS = 8


def _text_schema(name: str, description: str) -> dict[str, Any]:
    least = {} if name in _MAY_BE_EMPTY else {"minLength": 1}
    return {"type": "string", **least, "maxLength": _LONGEST[name], "description": description}


def _list_schema(bounds: tuple[int, int], description: str, fields: dict[str, Any], required: int) -> dict[str, Any]:
    least, most = bounds
    item = {"type": "object", "properties": fields, "required": list(fields)[:required]}
    return {"type": "array", "minItems": least, "maxItems": most, "description": description, "items": item}


QUESTIONS_SCHEMA: dict[str, Any] = _list_schema(
    _QUESTIONS,
    "The questions, 1 to 4, each with another text.",
    {
        "question": _text_schema("question", "The whole question. No two questions are the same."),
        "header": _text_schema("header", "What it is about in a word or two, at most 12 characters if possible."),
        "options": _list_schema(
            _OPTIONS,
            "What can be picked, 2 to 4 options with different labels. Do not add an option like Other: the human can "
            "always give a text of their own.",
            {
                "label": _text_schema("label", "A few words; the answer is this text."),
                "description": _text_schema("description", "What picking it means."),
                "markdown": _text_schema("markdown", "A preview to compare the options by: a sketch, code."),
            },
            required=2,
        ),
        "multiSelect": {"type": "boolean", "description": "Whether several options may be picked; if not said, one."},
    },
    required=3,
)
"""The schema for the model. Unknown fields are refused too, but the schema does not say so, as some providers do not
support that."""


def checked_questions(value: Any) -> tuple[dict[str, Any], ...]:
    """The questions with exactly their known fields; without `multiSelect` that is false, and an empty preview is none.
    Checked again, they stay the same.

    Raises TypeError for what is no list, ValueError naming each field that does not fit, and for more than
    `PAYLOAD_LIMIT` bytes.
    """
    if not isinstance(value, list | tuple):
        raise TypeError(f"questions: is {type(value).__name__}, expected a list of questions")
    if is_too_deep(value):
        raise ValueError(f"questions: they are nested deeper than {MAX_DEPTH}, or hold themselves")
    if problems := list(_problems(value)):
        more = [f"and {len(problems) - _SHOWN_PROBLEMS} more"] if len(problems) > _SHOWN_PROBLEMS else []
        raise ValueError("; ".join([*problems[:_SHOWN_PROBLEMS], *more]))
    questions = tuple(
        {
            **_picked({"multiSelect": False, **question}, _QUESTION_FIELDS),
            "options": [_picked(each, _OPTION_FIELDS) for each in question["options"]],
        }
        for question in value
    )
    try:
        size = json_size(questions)
    except ValueError as error:
        raise ValueError(f"questions: {error}") from None
    if size > PAYLOAD_LIMIT:
        raise ValueError(f"questions: they have {size} bytes as JSON, at most {PAYLOAD_LIMIT} are allowed")
    return questions


def read_answers(questions: Sequence[dict[str, Any]], response: Any) -> Answers:
    """The answers that `{"answers": {…}}` gives, in the order of the questions. Raises AnswerRefused.

    A question takes a label or a text of one's own, with `multiSelect` a list of them, each once; a single one counts
    as a list of one, and the other way round. Of several, labels come first, in the order of the options. An empty
    text answers only a question without options.
    """
    example = '{"answers": {"question": "answer"}}'
    if not isinstance(response, dict) or "answers" not in response:
        raise AnswerRefused(f"the answer is {brief(response)}, expected an object such as {example}")
    if unknown := sorted(str(key) for key in response if key != "answers"):
        raise AnswerRefused(f"the answer has unknown keys: {', '.join(unknown)}; expected an object such as {example}")
    given = response["answers"]
    if not isinstance(given, dict):
        raise AnswerRefused(f'"answers" is {brief(given)}, expected an object from question to answer')
    known = [question["question"] for question in questions]
    if strange := [text for text in given if text not in known]:
        raise AnswerRefused(f"{brief(strange[0])} is not one of the questions: {', '.join(map(brief, known))}")
    if missing := [text for text in known if text not in given]:
        raise AnswerRefused(f"the question {brief(missing[0])} has no answer")
    return {question["question"]: _answer(question, given[question["question"]]) for question in questions}


def _answer(question: dict[str, Any], given: Any) -> str | list[str]:
    text, multi = brief(question["question"]), bool(question.get("multiSelect"))
    answers: list[str] = given if isinstance(given, list) else [given]
    if not all(isinstance(answer, str) for answer in answers):
        wanted = "a text or a list of texts" if multi else "a text"
        raise AnswerRefused(f"the answer to {text} is {brief(given)}, expected {wanted}")
    if not answers or (question.get("options") and not all(answer.strip() for answer in answers)):
        raise AnswerRefused(f"the answer to {text} is empty: give the label of an option, or a text of your own")
    if len(answers) > 1 and not multi:
        raise AnswerRefused(f"the question {text} takes one answer, not {len(answers)}")
    if len(set(answers)) < len(answers):
        raise AnswerRefused(f"the question {text} has the same answer twice")
    if not multi:
        return answers[0]
    labels = [option["label"] for option in question.get("options") or ()]
    return sorted(answers, key=lambda answer: labels.index(answer) if answer in labels else len(labels))


def _problems(questions: Sequence[Any]) -> Iterator[str]:
    yield from _count("questions", questions, _QUESTIONS)
    for number, question in enumerate(questions[: _QUESTIONS[1]]):
        place = f"questions[{number}]"
        yield from _object(place, question, _QUESTION_FIELDS)
        if isinstance(question, dict):
            yield from _question(place, question)
    yield from _equal("questions", questions[: _QUESTIONS[1]], "question")


def _question(place: str, question: dict[str, Any]) -> Iterator[str]:
    for name in ("question", "header"):
        yield from _text(place, question, name)
    if not isinstance(question.get("multiSelect", False), bool):
        yield f"{place}.multiSelect: is {brief(question['multiSelect'])}, expected true or false"
    options = question.get("options", [{}, {}])
    if not isinstance(options, list | tuple):
        yield f"{place}.options: is {type(options).__name__}, expected a list of options"
        return
    yield from _count(f"{place}.options", options, _OPTIONS)
    for number, option in enumerate(options[: _OPTIONS[1]] if "options" in question else ()):
        yield from _object(f"{place}.options[{number}]", option, _OPTION_FIELDS)
        if isinstance(option, dict):
            for name in _OPTION_FIELDS:
                yield from _text(f"{place}.options[{number}]", option, name)
    yield from _equal(f"{place}.options", options[: _OPTIONS[1]], "label")


def _count(place: str, items: Sequence[Any], bounds: tuple[int, int]) -> Iterator[str]:
    least, most = bounds
    if not least <= len(items) <= most:
        yield f"{place}: has {len(items)}, expected {least} to {most}"


def _object(place: str, value: Any, fields: Sequence[str]) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place}: is {brief(value)}, expected an object with {', '.join(fields)}"
        return
    for name in fields:
        if name not in value and name not in _MAY_BE_MISSING:
            yield f"{place}.{name}: is missing"
    for name in value:
        if name not in fields:
            yield f"{place}.{name}: unknown field (known: {', '.join(fields)})"


def _text(place: str, value: dict[str, Any], name: str) -> Iterator[str]:
    text = value.get(name)
    if text is None and (name not in value or name == "markdown"):
        return
    if not isinstance(text, str):
        yield f"{place}.{name}: is {brief(text)}, expected a text"
    elif not text.strip() and name not in _MAY_BE_EMPTY:
        yield f"{place}.{name}: is empty"
    elif len(text) > _LONGEST[name]:
        yield f"{place}.{name}: has {len(text)} characters, at most {_LONGEST[name]} are allowed"


def _equal(place: str, items: Sequence[Any], name: str) -> Iterator[str]:
    texts = [item[name].strip() for item in items if isinstance(item, dict) and isinstance(item.get(name), str)]
    for text in dict.fromkeys(text for text in texts if texts.count(text) > 1):
        yield f"{place}: two have the {name} {brief(text)}, each needs its own"


def _picked(value: dict[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    return {name: value[name] for name in fields if name in value and not (name == "markdown" and not value[name])}

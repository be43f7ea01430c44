"""What counts as JSON where people and models give it."""

import json
from typing import Any

import pytest

from agent_md.cli.asking.answer_flags import given_by
from agent_md.cli.asking.answer_parsing import parse_json
from agent_md.errors import AnswerRefused
from agent_md.executions.json_values import MAX_DEPTH, has_no_json_number, is_too_deep, parse_strictly
from agent_md.visible_text import is_suspicious

NO_VALUES = [
    "1e999",
    "[-1e999]",
    "NaN",
    '{"a": Infinity}',
    "{",
    "[" * 100_000,
    '{"a": 1, "a": 1}',
    '[{"b": {"a": 1, "a": 2}}]',
]


def nested(depth: int) -> Any:
    return json.loads("[" * depth + "]" * depth)


@pytest.mark.parametrize("text", NO_VALUES, ids=lambda text: text[:12])
def test_what_no_face_takes(text: str) -> None:
    with pytest.raises(ValueError, match=r"Expecting|not a JSON|too large|too deeply|comes twice"):
        parse_strictly(text)
    with pytest.raises(AnswerRefused):
        parse_json(text)
    for option in ("answers", "edit"):
        flags: dict[str, Any] = dict.fromkeys(("reason", "text", "choice", "edit", "answers")) | {option: text}
        with pytest.raises(AnswerRefused):
            given_by(yes=False, no=False, **flags)


def test_what_is_taken() -> None:
    assert parse_strictly('{"a": [1.5, 1e300, 12345678901234567890, null]}') == {
        "a": [1.5, 1e300, 12345678901234567890, None]
    }


def test_the_depth_of_a_value() -> None:
    assert not any(is_too_deep(value) for value in (1, "a", [], {}, nested(MAX_DEPTH), {"a": nested(MAX_DEPTH - 1)}))
    assert all(is_too_deep(value) for value in (nested(MAX_DEPTH + 1), {"a": nested(MAX_DEPTH)}, nested(900)))


def test_the_depth_of_a_value_that_holds_itself() -> None:
    value: list[Any] = []
    value += [value, value]
    assert is_too_deep(value)


def test_numbers_that_json_does_not_have() -> None:
    assert not has_no_json_number({"a": [1, 1.5, "nan", None, True]})
    assert all(has_no_json_number(value) for value in (float("nan"), [{"a": (float("-inf"),)}]))


def test_deception_is_found_at_any_depth() -> None:
    value: Any = "\u202e"
    for _ in range(5000):
        value = {"a": [value]}
    assert is_suspicious(value)

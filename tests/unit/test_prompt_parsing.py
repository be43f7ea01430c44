"""What a typed line means, and what it never means."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.cli.asking.answer_parsing import parse_choice, parse_confirm, parse_json, parse_text
from agent_md.errors import AnswerRefused

OPTIONS = ("staging", "production", "a, b", "1")


@pytest.mark.parametrize("line", ["y", "Y", "yes", " YES "])
def test_yes(line: str) -> None:
    assert parse_confirm(line) == {"approved": True}


@pytest.mark.parametrize(
    ("line", "reason"), [("n", {}), ("", {}), ("  ", {}), ("No", {}), ("n keep it", {"reason": "keep it"})]
)
def test_no(line: str, reason: dict[str, str]) -> None:
    assert parse_confirm(line) == {"approved": False} | reason


@given(st.text())
def test_only_yes_approves(line: str) -> None:
    try:
        approved = parse_confirm(line)["approved"]
    except AnswerRefused:
        return
    assert not approved or (line.strip().lower() in ("y", "yes") and "\n" not in line)


@pytest.mark.parametrize("line", ["\ny", "y\n", "\ny\n", "\n\n", "n\n", "y\ny"])
def test_of_several_lines_none_decides(line: str) -> None:
    with pytest.raises(AnswerRefused, match="answer y or n"):
        parse_confirm(line)
    with pytest.raises(AnswerRefused, match="is no option"):
        parse_choice(line, OPTIONS, multi=False)


def test_a_reason_may_have_several_lines() -> None:
    assert parse_confirm("n still needed\nby ann") == {"approved": False, "reason": "still needed\nby ann"}


@pytest.mark.parametrize("line", ["1\n", "\n1", "1\n2"])
def test_no_option_is_taken_from_several_lines(line: str) -> None:
    with pytest.raises(AnswerRefused, match="is no option; type a number from 1 to 4"):
        parse_choice(line, OPTIONS, multi=True)


@pytest.mark.parametrize("line", ["maybe", "yy", "yes please", "nope", "1", "true", "у"])
def test_neither(line: str) -> None:
    with pytest.raises(AnswerRefused, match="answer y or n"):
        parse_confirm(line)


def test_text_is_taken_as_typed() -> None:
    assert parse_text("  a ") == {"text": "  a "}
    assert parse_text("") == {"text": ""}


@pytest.mark.parametrize(
    ("line", "selected"),
    [("1", "staging"), (" 2 ", "production"), ("production", "production"), ("a, b", "a, b"), ("4", "1")],
)
def test_one_option_by_number_or_text(line: str, selected: str) -> None:
    assert parse_choice(line, OPTIONS, multi=False) == {"selected": [selected]}
    assert parse_choice(line, OPTIONS, multi=True) == {"selected": [selected]}


def test_several_options_come_in_their_order_and_once() -> None:
    assert parse_choice("2, staging,1", OPTIONS, multi=True) == {"selected": ["staging", "production"]}


@pytest.mark.parametrize("line", ["1,3", "1 3", " 3  1 ", "3 ,1", "1\t3", "1, 3, 1", "staging,3"])
def test_several_numbers_may_stand_without_commas(line: str) -> None:
    assert parse_choice(line, ("staging", "production", "test"), multi=True) == {"selected": ["staging", "test"]}


@pytest.mark.parametrize("line", ["1 4", "1 staging", ",1", "1 3,"])
def test_several_with_one_that_is_none(line: str) -> None:
    with pytest.raises(AnswerRefused, match="is no option; type a number from 1 to 3"):
        parse_choice(line, ("staging", "production", "test"), multi=True)


def test_an_option_that_looks_like_several_numbers() -> None:
    assert parse_choice("1 2", ("a", "b", "1 2"), multi=True) == {"selected": ["1 2"]}


@pytest.mark.parametrize("line", ["", "0", "5", "-1", "²", "Staging", "prod", "1.0", "9" * 5000])
@pytest.mark.parametrize("multi", [False, True])
def test_no_option(line: str, multi: bool) -> None:
    with pytest.raises(AnswerRefused, match="is no option; type a number from 1 to 4"):
        parse_choice(line, OPTIONS, multi=multi)


@pytest.mark.parametrize("line", ["1,2", "1,"])
def test_one_option_is_not_several(line: str) -> None:
    with pytest.raises(AnswerRefused):
        parse_choice(line, OPTIONS, multi=False)


@pytest.mark.parametrize(("line", "value"), [("null", None), ("5", 5), ('{"a": [1]}', {"a": [1]}), ('""', "")])
def test_json(line: str, value: Any) -> None:
    assert parse_json(line) == value


@pytest.mark.parametrize("line", ["", "five", "NaN", "[1", "-Infinity", "[" * 100_000, "1" * 5000])
def test_no_json(line: str) -> None:
    with pytest.raises(AnswerRefused, match=r"^not JSON: "):
        parse_json(line)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("", "a value was expected at character 1"),
        ("{a: 1}", "a name in double quotes was expected at character 2"),
        ('{"a" 1}', "a colon was expected at character 6"),
        ("[1 2]", "a comma was expected at character 4"),
        ("5 six", "the value has ended before at character 3"),
        ('["a', "a text begins that does not end at character 2"),
        ('"\\x"', "invalid \\escape at character 2"),
    ],
)
def test_where_it_is_no_json(line: str, why: str) -> None:
    with pytest.raises(AnswerRefused) as refused:
        parse_json(line)
    assert str(refused.value) == f'not JSON: {why}; write it such as "text", 5 or {{"name": "text"}}'


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("red\n" * 1000 + "red", "red… (1001 lines) is no option; type a number from 1 to 2"),
        ("red\n" * 1000, "red… (1000 lines) is no option; type a number from 1 to 2"),
        ("r" * 1000, "r" * 80 + "… (1000 characters) is no option; type a number from 1 to 2"),
    ],
)
def test_a_long_paste_at_a_choice_is_named_by_its_beginning(typed: str, named: str) -> None:
    with pytest.raises(AnswerRefused) as refused:
        parse_choice(typed, ["red", "green"], multi=False)
    assert str(refused.value) == named

"""The window of a conversation on stored messages."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.executions.history import LONGEST_RESULT, own_messages, shortened, window_start


def message(kind: str, content: Any = "", **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"content": content, **data}}


def exchange(text: str, *results: str) -> list[dict[str, Any]]:
    return [message("human", text), message("ai"), *(message("tool", result) for result in results), message("ai", "!")]


talks = st.lists(st.integers(0, 3), max_size=8).map(
    lambda counts: [m for number, count in enumerate(counts) for m in exchange(str(number), *["r"] * count)]
)


@given(talks, st.integers(0, 40))
def test_it_is_the_longest_end_that_fits_and_begins_with_a_human_turn(talk: list[dict[str, Any]], limit: int) -> None:
    cut = talk[window_start(talk, limit) :]
    assert len(cut) <= limit
    assert talk[len(talk) - len(cut) :] == cut
    assert not cut or cut[0]["type"] == "human"
    left_out = talk[max(0, len(talk) - limit) : len(talk) - len(cut)] if limit else []
    assert all(m["type"] != "human" for m in left_out)


def test_a_long_result_keeps_its_beginning_and_its_end() -> None:
    text = "A" * 3000 + "B" * 5000 + "C" * 1000
    assert shortened(message("tool", text))["data"]["content"] == (
        "A" * 3000 + "\n[… 5000 characters of this result are left out of the history …]\n" + "C" * 1000
    )


@pytest.mark.parametrize("kind", ["human", "ai"])
def test_only_results_are_shortened(kind: str) -> None:
    said = message(kind, "x" * (LONGEST_RESULT + 1))
    assert shortened(said) is said


def test_a_result_of_the_longest_length_stays_whole() -> None:
    result = message("tool", "x" * LONGEST_RESULT)
    assert shortened(result) is result


def test_what_is_given_is_left_alone() -> None:
    result = message("tool", "x" * 10_000)
    before = deepcopy(result)
    shortened(result)
    assert result == before


def test_messages_come_by_position() -> None:
    stored = [
        ("human", {"message": "human"}),
        ("ai:0", {"message": "a0"}),
        ("result:0.10", {"message": "r0.10"}),
        ("result:0.2", {"message": "r0.2"}),
        ("ai:10", {"message": "a10"}),
        ("ai:2", {"message": "a2"}),
        ("result:2.0", {"message": "r2.0"}),
    ]
    assert own_messages(reversed(stored)) == ["human", "a0", "r0.2", "r0.10", "a2", "r2.0", "a10"]

"""A text that comes in pieces is shown as the whole would be, wherever it is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.cli.views.streaming_text import GrowingText, VisiblePieces
from agent_md.cli.views.visible_text import visible
from tests.support.emulator import Emulator
from tests.support.hostile import HOSTILE

BEGINNING = "12:00:00 talker 💬 "

texts = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\x1b[31m\ufe0f\u20e3\u0301\u0336❤1#👩\u200d\u200cبक्\n\t日")
)


@given(texts, st.lists(st.integers(1, 9), max_size=30))
def test_pieces_are_shown_as_the_whole(text: str, sizes: list[int]) -> None:
    pieces, shown, rest = VisiblePieces(), "", text + "z"
    for size in [*sizes, len(rest)]:
        shown += pieces.feed(rest[:size])
        rest = rest[size:]
    assert shown == visible(text + "z", prose=True)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_corpus_in_single_characters(name: str) -> None:
    pieces = VisiblePieces()
    assert "".join(pieces.feed(character) for character in HOSTILE[name]) == visible(HOSTILE[name], prose=True)


def printed(text: str, columns: int) -> list[str]:
    """The rows of a terminal on which the text was printed as a run prints it."""
    emulator = Emulator(columns, 1000)
    first, *rest = visible(text, prose=True).split("\n")
    emulator.feed("\r\n".join([BEGINNING + first, *("  " + line for line in rest)]))
    return emulator.screen


@pytest.mark.parametrize("columns", [20, 33, 80])
@pytest.mark.parametrize(
    "text", [*HOSTILE.values(), "می\u200cخواهم " * 9, "word " * 60, "日本語" * 50, "a\n\nb\tc\td", "x" * 61, "x" * 62]
)
def test_rows_are_those_of_the_terminal(text: str, columns: int) -> None:
    growing = GrowingText(BEGINNING)
    for character in text:
        growing.add(character)
        growing.rows(columns, 5)
    rows = growing.rows(columns, 1000)
    assert [row.rstrip() for row in rows] == printed(text, columns)


def test_the_last_rows_of_a_long_text_say_that_they_are_not_all() -> None:
    growing = GrowingText(BEGINNING)
    growing.add("\n".join(f"line {number}" for number in range(5000)))
    assert growing.rows(80, 4) == [f"{BEGINNING}…", "  line 4997", "  line 4998", "  line 4999"]
    assert growing.rows(80, 1) == [f"{BEGINNING}…"]


def test_another_width_lays_everything_out_anew() -> None:
    growing = GrowingText("")
    growing.add("abcdefgh\nij")
    assert growing.rows(4, 9) == ["abcd", "efgh", "  ij"]
    growing.add("kl")
    assert growing.rows(6, 9) == ["abcdef", "gh", "  ijkl"]

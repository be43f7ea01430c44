"""Whatever is typed, in pieces of any size: the same keys, a cursor within the text, rows within the screen."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from agent_md.cli.editing import EditedText, laid_out
from agent_md.cli.keys import Key, KeyReader
from agent_md.cli.text import visible, width_of

TYPED = st.lists(
    st.one_of(
        st.text(max_size=4).map(str.encode),
        st.binary(max_size=3),
        st.sampled_from([b"\x1b[200~", b"\x1b[201~", b"\x1b[D", b"\x1b", b"\x1b[", b"\x1bO", b"\r\n", b"\xe6\xbc"]),
    ),
    max_size=12,
).map(b"".join)
TEXTS = st.text(st.one_of(st.characters(), st.sampled_from("漢 é\n\t\u202e\ufe0f")), max_size=60)


def joined(found: list[Key | str]) -> list[Key | str]:
    """With texts that follow one another in one piece."""
    merged: list[Key | str] = []
    for key in found:
        if isinstance(key, str) and merged and isinstance(merged[-1], str):
            merged[-1] += key
        else:
            merged.append(key)
    return merged


@given(TYPED, st.lists(st.integers(0, 80), max_size=5))
def test_pieces_make_no_difference(data: bytes, cuts: list[int]) -> None:
    whole, pieces = KeyReader(), KeyReader()
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    found: list[Key | str] = []
    for start, end in itertools.pairwise(places):
        found += pieces.feed(data[start:end])
    assert joined(found) == joined(whole.feed(data))
    assert pieces.undecided == whole.undecided


@given(TYPED)
def test_what_is_typed_outside_of_a_paste_holds_no_control_characters(data: bytes) -> None:
    reader = KeyReader()
    for key in reader.feed(data.replace(b"\x1b[200~", b"")):
        assert isinstance(key, Key) or not any(c < " " or "\x7f" <= c <= "\x9f" for c in key)


@given(st.lists(st.one_of(st.sampled_from(Key), st.text(max_size=3)), max_size=30), st.lists(st.text(max_size=5)))
def test_the_cursor_stays_within_the_text(typed: list[Key | str], past: list[str]) -> None:
    edited = EditedText(past)
    for key in typed:
        edited.apply(key)
        assert 0 <= edited.cursor <= len(edited.text)


@given(TEXTS, st.integers(0, 60), st.integers(20, 90))
def test_rows_fit_and_hold_all_of_the_text(text: str, cursor: int, width: int) -> None:
    cursor = min(cursor, len(text))
    layout = laid_out("you> ", text, cursor, width)
    assert all(width_of(row) <= width for row in layout.rows)
    assert 0 <= layout.row < len(layout.rows)
    assert 0 <= layout.column < width
    assert "".join("".join(layout.rows).split()) == "".join(f"you>{visible(text)}".split())

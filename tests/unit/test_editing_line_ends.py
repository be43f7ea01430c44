"""`file_edit` matches lines whatever their ends are, and what it writes keeps the ends of the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.tools.replace_passage import PassageNotFound, PassageNotUnique, TooLarge, replaced


def edited(text: str, old: str, new: str, *, everywhere: bool = False, limit: int = 1_000_000) -> str:
    return replaced(text, old, new, everywhere=everywhere, limit=limit)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("written", ["\n", "\r\n"])
def test_lines_of_a_file_match_and_keep_their_ends(end: str, written: str) -> None:
    text = end.join(["one", "two", "three", ""])
    old, new = written.join(["one", "two"]), written.join(["one", "2", "and more"])
    assert edited(text, old, new) == end.join(["one", "2", "and more", "three", ""])


def test_a_new_line_at_a_place_within_a_line_gets_the_ends_of_the_file() -> None:
    assert edited("a\r\nbc\r\n", "b", "b\nB") == "a\r\nb\r\nBc\r\n"
    assert edited("abc", "b", "b\nB") == "ab\nBc"


def test_mixed_ends_that_are_not_touched_stay() -> None:
    text = "one\r\ntwo\nthree\r\nfour\n"
    assert edited(text, "one\ntwo\nthree\n", "one\n2\nthree\n") == "one\r\n2\nthree\r\nfour\n"
    assert edited(text, "two\nthree", "two\n2.5\nthree") == "one\r\ntwo\n2.5\nthree\r\nfour\n"
    assert edited(text, "three", "3\n3.5") == "one\r\ntwo\n3\n3.5\r\nfour\n"
    assert edited(text, "one\ntwo\n", "") == "three\r\nfour\n"


def test_the_same_lines_with_other_ends_are_a_second_place() -> None:
    with pytest.raises(PassageNotUnique):
        edited("a\nb\n-\r\na\r\nb\r\n", "a\nb", "x")
    assert edited("a\nb\n-\r\na\r\nb\r\n", "a\nb", "x\ny", everywhere=True) == "x\ny\n-\r\nx\r\ny\r\n"


def test_line_ends_alone_can_be_changed() -> None:
    assert edited("a\r\nb\r\n", "a\r\nb", "a\nb") == "a\nb\r\n"
    assert edited("a\r\nb\r\n", "\r\n", "\n", everywhere=True) == "a\nb\n"
    with pytest.raises(PassageNotFound):
        edited("a\nb\n", "a\r\nb", "a\nb")


def test_a_result_that_is_too_large_is_not_built() -> None:
    with pytest.raises(TooLarge) as refused:
        edited("a\r\n\n" * 1000, "a", "x\n" * 10, everywhere=True, limit=20_000)
    assert refused.value.size == len(edited("a\r\n\n" * 1000, "a", "x\n" * 10, everywhere=True))


PIECES = st.lists(st.sampled_from(["a", "b", "\n", "\r\n"]), max_size=12).map("".join)


@given(PIECES, PIECES.filter(bool), PIECES, st.booleans())
def test_an_edit_is_that_of_the_text_with_lf_alone(text: str, old: str, new: str, everywhere: bool) -> None:
    """And every line that it does not touch has the end it had."""

    def plain(part: str) -> str:
        return part.replace("\r\n", "\n")

    if plain(old) == plain(new):
        return
    try:
        result = edited(text, old, new, everywhere=everywhere)
    except (PassageNotFound, PassageNotUnique):
        found = plain(text).find(plain(old))
        assert found < 0 or (not everywhere and plain(text).find(plain(old), found + 1) >= 0)
        return
    assert plain(result) == plain(text).replace(plain(old), plain(new))
    if not everywhere:
        before, after = plain(text).partition(plain(old))[::2]
        assert _ends(result)[: before.count("\n")] == _ends(text)[: before.count("\n")]
        assert (behind := after.count("\n")) == 0 or _ends(result)[-behind:] == _ends(text)[-behind:]


def _ends(text: str) -> list[str]:
    """The end of each line of the text that has one."""
    return ["\r\n" if line.endswith("\r") else "\n" for line in text.split("\n")[:-1]]

"""The parts of the line editor that need no terminal: keys from bytes, a text that keys change, its rows on a screen."""

from __future__ import annotations

import pytest

from agent_md.cli.editing import EditedText, Layout, laid_out
from agent_md.cli.keys import Key, KeyReader


def keys(data: bytes) -> list[Key | str]:
    return KeyReader().feed(data)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"abc", ["abc"]),
        (b"a\r\n", ["a", Key.ENTER, Key.ENTER]),
        ("é漢👋".encode(), ["é漢👋"]),
        (b"\x7f\x08", [Key.BACKSPACE, Key.BACKSPACE]),
        (b"\x1b[D\x1bOD\x02", [Key.LEFT] * 3),
        (b"\x1b[C\x1b[A\x1b[B", [Key.RIGHT, Key.UP, Key.DOWN]),
        (b"\x1b[H\x1b[1~\x01\x1b[F\x1bOF\x05", [Key.HOME] * 3 + [Key.END] * 3),
        (b"\x1b[3~\x04", [Key.DELETE, Key.END_OF_INPUT]),
        (b"\x1b\r\x1b\n", [Key.NEW_LINE, Key.NEW_LINE]),
        (b"\x15\x17\x0b", [Key.KILL_BEFORE, Key.KILL_WORD, Key.KILL_AFTER]),
        (b"a\x1b[15~\x1b[1;5Cb\x1bxc\t\x00\x1f", ["a", "b", "c"]),
        (b"\x1b[\x07a", ["[", "a"]),
        (b"caf\xe9!", ["caf\udce9!"]),
        (b"\xc2\x9b31m", ["31m"]),
        (b"\x1b[200~a\r\nb\rc\nd\x1b[D\x03\x1b[201~e", ["a\nb\nc\nd\x1b[D\x03", "e"]),
    ],
)
def test_keys_and_texts(data: bytes, found: list[Key | str]) -> None:
    assert keys(data) == found


def test_a_key_that_has_begun_waits_for_its_rest() -> None:
    reader = KeyReader()
    assert reader.feed(b"a\x1b") == ["a"]
    assert reader.undecided
    assert reader.feed(b"[D") == [Key.LEFT]
    assert not reader.undecided


def test_escape_alone_is_forgotten() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    reader.forget()
    assert reader.feed(b"a") == ["a"]


def edited(*typed: Key | str, past: tuple[str, ...] = ()) -> str:
    """The text with `|` where the cursor is."""
    text = EditedText(past)
    for key in typed:
        text.apply(key)
    return f"{text.text[: text.cursor]}|{text.text[text.cursor :]}"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (("helo", Key.LEFT, "l"), "hell|o"),
        (("ab", Key.LEFT, Key.LEFT, Key.LEFT, "x"), "x|ab"),
        (("ab", Key.RIGHT, "x"), "abx|"),
        (("ab", Key.BACKSPACE, Key.BACKSPACE, Key.BACKSPACE), "|"),
        (("ab", Key.HOME, Key.DELETE, Key.END, Key.DELETE), "b|"),
        (("one two  ", Key.KILL_WORD), "one |"),
        (("  ", Key.KILL_WORD), "|"),
        (("one\ntwo", Key.KILL_WORD), "one\n|"),
        (("a" * 200_000, " b", Key.KILL_WORD), "a" * 200_000 + " |"),
        (("one", Key.NEW_LINE, "two", Key.HOME, "x", Key.END, "y"), "one\nxtwoy|"),
        (("one", Key.NEW_LINE, "two", Key.LEFT, Key.KILL_BEFORE), "one\n|o"),
        (("one\ntwo", Key.HOME, Key.LEFT, Key.LEFT, Key.KILL_AFTER), "on|\ntwo"),
        ((Key.ENTER, Key.END_OF_INPUT), "|"),
    ],
)
def test_what_keys_do(typed: tuple[Key | str, ...], expected: str) -> None:
    assert edited(*typed) == expected


def test_earlier_texts_are_called_back_and_what_was_typed_is_kept() -> None:
    past = ("first", "second")
    assert edited("new", Key.UP, past=past) == "second|"
    assert edited("new", Key.UP, Key.UP, Key.UP, past=past) == "first|"
    assert edited("new", Key.UP, "!", Key.UP, Key.DOWN, past=past) == "second!|"
    assert edited("new", Key.UP, Key.DOWN, Key.DOWN, past=past) == "new|"
    assert past == ("first", "second")


@pytest.mark.parametrize(
    ("text", "cursor", "expected"),
    [
        ("", 0, Layout(("> ",), 0, 2)),
        ("abc", 1, Layout(("> abc",), 0, 3)),
        ("abcdefgh", 8, Layout(("> abcdefgh", ""), 1, 0)),
        ("abcdefghij", 8, Layout(("> abcdefgh", "ij"), 1, 0)),
        ("abcdefg漢", 8, Layout(("> abcdefg", "漢"), 1, 2)),
        ("a\nb", 2, Layout(("> a", "  b"), 1, 2)),
        ("a\n", 2, Layout(("> a", "  "), 1, 2)),
        ("a\tb", 2, Layout(("> a     b",), 0, 8)),
        ("\x1b[A", 1, Layout(("> \\x1b[A",), 0, 6)),
        ("e\u0301x", 2, Layout(("> e\u0301x",), 0, 3)),
    ],
)
def test_rows_and_cursor(text: str, cursor: int, expected: Layout) -> None:
    assert laid_out("> ", text, cursor, 10) == expected


def test_the_row_of_the_cursor_is_among_those_that_fit() -> None:
    rows = tuple("abcdef")
    assert Layout(rows, 5, 0).last(2) == Layout(("e", "f"), 1, 0)
    assert Layout(rows, 1, 0).last(2) == Layout(("b", "c"), 0, 0)
    assert Layout(rows, 1, 0).last(9) == Layout(rows, 1, 0)

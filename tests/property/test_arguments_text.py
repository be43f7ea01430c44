"""Arguments that people edit: what is written for them is read as it was, whatever it is."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.cli.asking.arguments_text import arguments_in, text_of
from agent_md.errors import AnswerRefused

TEXTS = st.text(max_size=20) | st.text("ab\n\t :#-'\"|>&*!%@`,[]{}?\\\r\x85\u2028é🙂\ud800\x00\u202e", max_size=20)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_what_is_written_is_read_as_it_was(args: dict[str, Any]) -> None:
    text = text_of(args)
    assert repr(arguments_in(text)) == repr(args)
    assert text.endswith("\n") or repr(arguments_in(f"{text}\n")) == repr(args)


@pytest.mark.parametrize("content", ["a\nb\n", "a\nb", "a\nb\n\n", "\n\na\n", "  a\nb\n", "a\n...\n", "a\n---\n"])
def test_a_text_of_several_lines_is_written_line_by_line(content: str) -> None:
    text = text_of({"path": "a.py", "content": content})
    assert text.startswith("path: a.py\ncontent: |")
    assert arguments_in(text) == {"path": "a.py", "content": content}


@given(TEXTS)
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(AnswerRefused):
        assert isinstance(arguments_in(text), dict)


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("path: a.txt", {"path": "a.txt"}),
        ("# a comment\npath: a.txt\ncount: 2\n", {"path": "a.txt", "count": 2}),
        ('{"path": "a.txt", "on": null}', {"path": "a.txt", "on": None}),
        ("{path: a.txt}", None),
        ("path: yes", None),
        ("- a", None),
        ("", None),
        ("a: 1\na: 2", None),
        ("a: !!python/object:os.system x", None),
        ("a: &x 1\nb: *x", None),
    ],
)
def test_what_people_write(text: str, args: dict[str, Any] | None) -> None:
    if args is None:
        with pytest.raises(AnswerRefused):
            arguments_in(text)
    else:
        assert arguments_in(text) == args

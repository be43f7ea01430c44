"""Secrets are taken out of texts in every common form, and however a text is split."""

from __future__ import annotations

import base64
import html
import itertools
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.redaction import Redactor, is_secret_name

SECRET = 'sk-ä/+?&<x>"quoted" \\value'
REDACTOR = Redactor({"SHOP_TOKEN": SECRET, "PEM_KEY": "-----BEGIN-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n-----END-----"})

values = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=8, max_size=40)
around = st.text("abc /+=%", max_size=7)


def _encoded(value: str, before: str = "", after: str = "") -> dict[str, str]:
    whole = f"{before}{value}{after}".encode()
    return {
        "plain": f"{before}{value}{after}",
        "json": json.dumps({"a": f"{before}{value}{after}"}),
        "json in UTF-8": json.dumps(f"{before}{value}{after}", ensure_ascii=False),
        "repr": repr([f"{before}{value}{after}"]),
        "url": before + quote(value, safe="") + after,
        "path": before + quote(value) + after,
        "form": before + quote_plus(value) + after,
        "url twice": before + quote(quote(value, safe=""), safe="") + after,
        "url of a script": before + quote(value, safe="!*'()") + after,
        "base64 of url": base64.b64encode(f"{before}{quote(value, safe='')}{after}".encode()).decode(),
        "html": before + html.escape(value) + after,
        "hex": whole.hex(),
        "base64": base64.b64encode(whole).decode(),
        "base64 for urls": base64.urlsafe_b64encode(whole).decode().rstrip("="),
    }


@pytest.mark.parametrize("encoding", _encoded(SECRET))
@pytest.mark.parametrize("before", ["", "x", "xy", "xyz"])
def test_every_common_encoding_is_seen_at_any_position(encoding: str, before: str) -> None:
    text = _encoded(SECRET, before, "tail")[encoding]
    assert "[secret SHOP_TOKEN]" in REDACTOR.text(text)
    assert SECRET not in REDACTOR.text(text)


def test_what_is_no_secret_stays_the_same_object() -> None:
    text = "nothing of it " * 100
    assert REDACTOR.text(text) is text
    assert Redactor({"SHORT_KEY": "1234567"}).text("1234567") == "1234567"
    assert Redactor().value({"a": [1, None, "x"]}) == {"a": [1, None, "x"]}


def test_json_values_keep_their_shape() -> None:
    value = {SECRET: [SECRET, 1, None, {"deep": (SECRET,)}]}
    mark = "[secret SHOP_TOKEN]"
    assert REDACTOR.value(value) == {mark: [mark, 1, None, {"deep": (mark,)}]}


def test_long_lines_of_a_key_are_secrets_too() -> None:
    assert REDACTOR.text("+MIIEvQIBADANBgkqhkiG9w0BAQ\n") == "+[secret PEM_KEY]\n"


def test_marks_of_known_secrets_are_found() -> None:
    assert REDACTOR.marked({"content": ["a [secret SHOP_TOKEN] b"]}) == "SHOP_TOKEN"
    assert REDACTOR.marked({"content": "a [secret OTHER_TOKEN] b"}) is None


@pytest.mark.parametrize(("name", "secret"), [("GITHUB_TOKEN", True), ("db_password", True), ("KEYBOARD", False)])
def test_names_tell(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@given(values, around, around, st.lists(st.integers(0, 80), max_size=12))
def test_pieces_say_what_the_whole_does(value: str, before: str, after: str, cuts: list[int]) -> None:
    redactor = Redactor({"A_KEY": value})
    text = f"{before}{value}{after}{value}"
    stream = redactor.stream()
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    given_out = "".join(stream.feed(text[start:end]) for start, end in itertools.pairwise(edges))
    assert given_out + stream.rest() == redactor.text(text)


@given(values, around, around)
def test_no_value_is_left_in_any_encoding(value: str, before: str, after: str) -> None:
    redactor = Redactor({"A_KEY": value})
    for text in _encoded(value, before, after).values():
        assert "[secret A_KEY]" in redactor.text(text)

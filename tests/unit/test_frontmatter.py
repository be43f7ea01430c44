"""Cutting an agent file, and YAML that is read strictly."""

from __future__ import annotations

import time

import pytest

from agent_md.agents.defaults import Defaults
from agent_md.agents.frontmatter import read_document
from agent_md.agents.parse_spec import read_agent
from agent_md.errors import AgentFileInvalid
from tests.support.agent_texts import FILE, agent_file, mistakes_in, spec_of


def refusal(data: bytes) -> str:
    with pytest.raises(AgentFileInvalid) as caught:
        read_document(data, FILE)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "description", "body"),
    [
        (b"---\ndescription: x --- y\n---\nBody\n", "x --- y", "Body\n"),
        (b'---\ndescription: "a --- b"\n---\nBody', "a --- b", "Body"),
        (b"---\ndescription: |\n  a\n  ---\n  b\n---\nBody", "a\n---\nb\n", "Body"),
        (b"---\ndescription: x\n---\nA\n\n---\n\nB\n...\n", "x", "A\n\n---\n\nB\n...\n"),
        (b"---\ndescription: x\n---\n```\n---\nname: other\n---\n```\n", "x", "```\n---\nname: other\n---\n```\n"),
        (b"---\ndescription: x\n...\nBody", "x", "Body"),
        (b"---  \t\ndescription: x\n--- \t\n Body ", "x", " Body "),
        (b"\n \t\n\n---\ndescription: x\n---\nBody", "x", "Body"),
        (b"\xef\xbb\xbf---\ndescription: x\n---\nBody", "x", "Body"),
        (b"---\r\ndescription: x\r\n---\r\nA\r\nB\n\rC\r\n", "x", "A\r\nB\n\rC\r\n"),
        (b"\xef\xbb\xbf\r\n---\r\ndescription: x\n---\nBody", "x", "Body"),
        (b"---\ndescription: x\n---", "x", ""),
        (b"---\n---\n\n\nBody\n", "", "\n\nBody\n"),
        (b"---\n# only a comment\n---\nBody", "", "Body"),
    ],
)
def test_only_a_whole_line_cuts_and_the_body_stays_as_written(data: bytes, description: str, body: str) -> None:
    parsed = read_agent(data, FILE, Defaults())

    assert parsed.error == ""
    assert parsed.spec is not None
    assert (parsed.spec.description, parsed.spec.body) == (description, body)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", f"{FILE}:1:1: the first line must be exactly ---"),
        (b"Just text\n", 'read "Just text"'),
        (
            b"\n\n----\nname: a\n----\n",
            f'{FILE}:3:1: the first line must be exactly --- (the settings follow it, up to a second ---), read "----"',
        ),
        (b" ---\nname: a\n---\n", 'read "---"'),
        (b"--- # settings\nname: a\n---\n", 'read "--- # settings"'),
        (b"---\nname: a\n", f"{FILE}:1:1: the settings that open here are never closed"),
        (b"---\nname: a\n  ---\n----\n--- x\n", "are never closed"),
        (b"---\rname: a\r---\rBody", "the lines end with CR only; save the file with LF or CRLF"),
        ("---\nname: a\n---\n".encode("utf-16"), f"{FILE}: the file is encoded as UTF-16 or UTF-32; save it as UTF-8"),
        ("---\nname: a\n---\n".encode("utf-16-be"), "NUL byte in line 1; save it as UTF-8"),
        ("---\nname: a\n---\n".encode("utf-32"), "UTF-16 or UTF-32"),
        (b"---\nname: a\n---\nx\0y", "NUL byte in line 4"),
        (b"\xef\xbb\xbf---\nname: a\n---\nM\xfcll\n", "not UTF-8: byte 0xfc in line 4; save it as UTF-8"),
    ],
)
def test_a_file_that_cannot_be_cut_is_refused_by_name(data: bytes, expected: str) -> None:
    assert expected in refusal(data)


@pytest.mark.parametrize(
    ("settings", "place", "texts"),
    [
        ("name: a\ndescription: Fix: things", "3:17", ['write description: "Fix: things"']),
        ("name: a\nmodel:\n  name: a: b # c", "4:10", ['write name: "a: b" # c']),
        ("confirm:\n  - http_request(GET https://a: b)", "3:5", ["read a mapping", "put it in quotes"]),
        ("description: use #tags", "2:14", ['YAML reads only the text "use"', 'write description: "use #tags"']),
        ("description: five # six", "2:14", ['YAML reads only the text "five"']),
        ("name: one #two", "2:7", ['write name: "one #two"']),
        ("metadata: {}\nicon: x #y", "3:7", ['write icon: "x #y"']),
        ("metadata:\n  note: a #b", "3:9", ['write note: "a #b"']),
        ("description: @here", "2:14", ["cannot start with @", 'write description: "@here"']),
        ("description: `x`", "2:14", ['write description: "`x`"']),
        ("description: %d", "2:14", ['write description: "%d"']),
        ("confirm: [%a, b]", "2:11", ['write confirm: ["%a", b]']),
        ("description: - x", "2:14", ['write description: "- x"']),
        ("description: *.txt files", "2:14", ["starts an alias", 'write description: "*.txt files"']),
        ("auto_approve: *", "2:15", ['write auto_approve: "*"']),
        ("auto_approve: [a, *]", "2:19", ['write auto_approve: [a, "*"]']),
        ("trigger:\n  cron: */5 * * * *  # often", "3:9", ['write cron: "*/5 * * * *"  # often']),
        ("description: &name", "2:14", ["anchors are not supported", 'write description: "&name"']),
        ("description: !important x", "2:14", ["tags are not supported", 'write description: "!important x"']),
        ("settings:\n\ttimeout: 5", "3:1", ["a tab in line 3, column 1; use spaces"]),
        ("name:\tx", "2:6", ["a tab in line 2, column 6; use spaces"]),
        ('description: "C:\\path"', "2:18", ["single quotes"]),
        ('description: "a\nname: b', "2:14", ["never closed"]),
        ("description: one\n  note: more", "3:7", ["line 3 is inside what stands above it"]),
        ('description: "\\ud800"', "2:14", ["U+D800"]),
        ('description: "\\0"', "2:14", ["U+0000"]),
        ('description: "\\UFFFFFFFF"', "2:17", ["no character"]),
        ("description: a\x07b", "2:15", ["control character U+0007"]),
        ("name: a\u2028confirm: []", "2:8", ["invisible U+2028"]),
        ("name: a\rconfirm: b", "2:8", ["invisible U+000D"]),
        ("- a\n- b", "2:1", ["expected lines such as `key: value`, read a list"]),
        ("just text", "2:1", ['read the text "just text"']),
        ("%YAML 1.1", "2:1", ["directives are not supported"]),
        ("name: a\n--- b\nname: c", "3:1", ["must be one"]),
        ("<<: {name: a}", "2:1", ["merge keys"]),
        ("? [a]\n: b", "2:3", ["a key must be a text, read a list"]),
        ("~: b", "2:1", ["a key must be a text, read null"]),
    ],
)
def test_what_yaml_would_misread_is_refused_where_it_stands(settings: str, place: str, texts: list[str]) -> None:
    mistakes = mistakes_in(settings)

    assert f"{FILE}:{place}: " in mistakes
    for text in texts:
        assert text in mistakes


@pytest.mark.parametrize(
    ("settings", "first", "second"),
    [
        ("confirm: a\nname: b\nconfirm: c", 2, 4),
        ("settings:\n  timeout: 5\n  timeout: 6", 3, 4),
        ("metadata:\n  on: 1\n  'on': 2", 3, 4),
    ],
)
def test_duplicate_keys_name_both_lines(settings: str, first: int, second: int) -> None:
    assert f"given twice, in line {first} and in line {second}" in mistakes_in(settings)


def test_the_lines_of_mistakes_count_from_the_top_of_the_file() -> None:
    parsed = read_agent(b"\xef\xbb\xbf\r\n\r\n---\r\nname: a\r\nhooks: 1\r\n---\r\n", FILE, Defaults())

    assert parsed.error == f"{FILE}:5:1: hooks: not supported yet; remove it"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "\n".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]" for old, new in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(BOMB, "anchors are not supported", id="alias bomb"),
        pytest.param("metadata: &a [*a]", "anchors are not supported", id="cycle"),
        pytest.param("[" * 2000, "nested more than 32 deep", id="deep flow"),
        pytest.param("a: " + "{a: " * 2000, "nested more than 32 deep", id="deep flow mapping"),
        pytest.param("- " * 2000, "nested more than 32 deep", id="deep block"),
        pytest.param("[" * 200_000, "nested more than 32 deep", id="wide and deep"),
        pytest.param("description: " + "x" * 5_000_000, "larger than 256 KiB", id="5 MB"),
        pytest.param("a: 1:" + "59:" * 20_000 + "59", "there is no such key", id="long base-60 number"),
        pytest.param("settings: {timeout: " + "9" * 20_000 + "}", "settings.timeout", id="long number"),
    ],
)
def test_bombs_are_refused_at_once(settings: str, expected: str) -> None:
    data = agent_file(settings)
    spent = []
    for _ in range(5):  # the least of some: what a busy machine adds is not ours
        started = time.process_time()
        error = read_agent(data, FILE, Defaults()).error
        spent.append(time.process_time() - started)

    assert min(spent) < 0.1
    assert expected in error
    assert len(error) < 2000


def test_more_values_than_any_file_needs_are_refused() -> None:
    assert "more than 10000 values" in mistakes_in("\n".join(f"- {number}" for number in range(10_001)))


def test_a_long_text_is_no_bomb() -> None:
    assert len(spec_of("description: " + "x" * 250_000).description) == 250_000


def test_a_file_without_end_of_mistakes_is_reported_in_bounds() -> None:
    mistakes = mistakes_in("\n".join(f"key{number}: 1" for number in range(200))).splitlines()

    assert len(mistakes) == 51
    assert mistakes[-1].endswith("and 150 more")

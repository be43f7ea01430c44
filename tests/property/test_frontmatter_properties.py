"""Whatever a file holds, reading it gives a spec or AgentFileInvalid; and what is quoted comes back."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_md.agents.defaults import Defaults
from agent_md.agents.frontmatter import read_document
from agent_md.agents.parse_spec import FIELDS, parse_agent, read_agent
from agent_md.agents.source import Source, quoted
from agent_md.agents.spec import AgentSpec
from agent_md.agents.typed_values import json_safe
from agent_md.agents.yaml_positions import Scalar, load_mapping
from agent_md.errors import AgentFileInvalid
from tests.support.agent_texts import FILE

MARKS = st.sampled_from(
    [": ", ":", "- ", "#", " #", "[", "]", "{", "}", ",", "*", "&a", "*a", "!t", "|", ">", "'", '"', "\\", "%", "@", "?", "<<",
     "---", "...", "\n", "\n  ", "\t", "\r\n", "on", "007", "1:30", "1.10", "2024-01-01", "~", "\\x07", "\\ud800", *FIELDS]
)  # fmt: skip
YAMLISH = st.lists(MARKS | st.text(max_size=3), max_size=25).map("".join)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


def check_reading(data: bytes) -> None:
    parsed = read_agent(data, FILE, Defaults())
    if parsed.spec is None:
        assert parsed.error
        assert all(line.startswith(f"{FILE}:") for line in re.split(r"\n(?=agents/)", parsed.error))
    else:
        assert AgentSpec.from_json(parsed.spec.to_json()) == parsed.spec
        json.dumps(parsed.spec.metadata, allow_nan=False).encode()


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    check_reading(data)


@settings(deadline=None)
@given(YAMLISH)
def test_any_settings(text: str) -> None:
    check_reading(f"---\n{text}\n---\nBody".encode(errors="replace"))


@settings(deadline=None)
@given(st.sampled_from(FIELDS), YAMLISH)
def test_any_value_of_a_field(field: str, value: str) -> None:
    check_reading(f"---\n{field}: {value}\n---\nBody".encode(errors="replace"))


@settings(deadline=None)
@given(st.sampled_from(FIELDS), st.recursive(WORDS | st.integers() | st.booleans() | st.none(), lambda c: st.lists(c, max_size=3) | st.dictionaries(WORDS, c, max_size=3), max_leaves=8))  # fmt: skip
def test_any_json_value_of_a_field(field: str, value: object) -> None:
    check_reading(f"---\n{field}: {json.dumps(value)}\n---\nBody".encode())


@settings(deadline=None)
@given(WORDS)
def test_a_quoted_text_comes_back_and_never_cuts(text: str) -> None:
    spec = parse_agent(f"---\ndescription: {quoted(text)}\n---\n".encode(), FILE, Defaults())

    assert spec.description == text


@settings(deadline=None)
@given(WORDS)
def test_the_body_comes_back_byte_for_byte(body: str) -> None:
    document = read_document(f"---\ndescription: a --- b\n---\n{body}".encode(), FILE)

    assert document.body == body


@settings(deadline=None)
@given(st.lists(st.sampled_from(["---", "...", "x", "- a"]), min_size=1, max_size=6))
def test_delimiters_inside_a_block_never_cut(lines: list[str]) -> None:
    block = "".join(f"  {line}\n" for line in lines)

    spec = parse_agent(f"---\ndescription: |\n{block}---\n---\n".encode(), FILE, Defaults())

    assert spec.description == "".join(f"{line}\n" for line in lines)
    assert spec.body == "---\n"


@settings(deadline=None)
@given(st.text("0123456789.:_-+eExo", min_size=1, max_size=10))
def test_free_metadata_keeps_what_was_written(text: str) -> None:
    source = Source(FILE, f"value: {text}")
    mapping = load_mapping(source)
    if mapping is None or not isinstance(node := mapping.entries["value"].value, Scalar):
        return

    value = json_safe(node)

    assert value is None or str(value) == text


@settings(deadline=None)
@given(st.from_regex(r"[a-z]{1,5}: [a-z:# ]{1,12}[a-z]", fullmatch=True))
def test_the_line_to_paste_is_understood(line: str) -> None:
    """Pasting what a message gives leads, after at most a few pastes, to a line that YAML reads."""
    key = line.partition(":")[0]
    for _ in range(3):
        error = read_agent(f"---\nmetadata:\n  {line}\n---\n".encode(), FILE, Defaults()).error
        if not error:
            return
        found = re.search(rf"write ({key}: .*?)(?:, or give the comment its own line)?$", error)
        if found is None:
            assert "put" in error
            return
        line = found[1]
    raise AssertionError(f"no paste helped: {line}")


def test_the_error_of_a_file_is_the_one_that_is_raised() -> None:
    data = b"---\nhooks: 1\n---\n"
    with pytest.raises(AgentFileInvalid) as caught:
        parse_agent(data, FILE, Defaults())
    assert str(caught.value) == read_agent(data, FILE, Defaults()).error

"""Messages between their stored form and the form that clients of a conversation know."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage, messages_from_dict

from agent_md.executions.chat_messages import beside_text, chat_message, read_arguments, stored_message
from agent_md.graph.messages import text_of, to_stored

BLOCKS: list[str | dict[Any, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "reasoning", "text": "hm"},
    "A ",
    {"type": "text", "text": "B", "index": 0},
    {"type": "tool_use", "id": "c", "name": "f", "input": {}},
    {"type": "image_url", "image_url": "http://x"},
    {"type": "text", "text": " C"},
]


@pytest.mark.parametrize("content", ["", "text", [], BLOCKS, ["a", "b"]], ids=repr)
@pytest.mark.parametrize("kind", [AIMessage, HumanMessage, SystemMessage])
def test_only_the_text_is_given_out(kind: type[BaseMessage], content: Any) -> None:
    message = kind(content=content)
    assert chat_message(to_stored(message))["content"] == text_of(message)


def test_what_a_message_lacks_is_left_out() -> None:
    shown = chat_message(to_stored(AIMessage("Hi.", response_metadata={"model_name": "m"}, usage_metadata=None)))
    assert shown == {"role": "assistant", "content": "Hi."}
    assert chat_message(to_stored(HumanMessage("Hi."))) == {"role": "user", "content": "Hi."}
    result = ToolMessage("did", tool_call_id="c", name="f", status="error", artifact={"a": 1})
    assert chat_message(to_stored(result)) == {"role": "tool", "content": "did", "tool_call_id": "c", "name": "f"}


def test_calls_have_the_form_that_chat_clients_share() -> None:
    calls = [{"name": "f", "args": {"a": "é", "n": None}, "id": "c"}]
    (shown,) = chat_message(to_stored(AIMessage("", tool_calls=calls)))["tool_calls"]
    assert shown == {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": "é", "n": null}'}}


def test_what_is_said_beside_the_text_is_no_part_of_the_message() -> None:
    (message,) = messages_from_dict([stored_message({"role": "user", "content": "x", "name": "Ann"}, "m")])
    assert (message.content, message.name, message.id) == ("x", None, "m")
    assert beside_text({"role": "user", "content": "x", "name": None, "user_params": None}) == {}


@pytest.mark.parametrize(
    "text", ["", "[]", "1", "null", '{"a": NaN}', '{"a": 1e999}', "{" * 5000, r'{"a": "\ud800"}', r'{"\udfff": 1}']
)
def test_arguments_are_a_json_object(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_arguments(text)


_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_OBJECT = st.dictionaries(_TEXT, _JSON, max_size=3)
_CALL = st.builds(
    lambda id, name, args: {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}},
    *(_TEXT, _TEXT, _OBJECT),
)
_BESIDE = {"user_params": _OBJECT}
_SAID = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "system"]), "content": _TEXT}, optional={"name": _TEXT, **_BESIDE}
)
_MESSAGES = (
    _SAID
    | st.fixed_dictionaries(
        {"role": st.just("assistant"), "content": _TEXT, "tool_calls": st.lists(_CALL, min_size=1, max_size=3)},
        optional={"name": _TEXT, **_BESIDE},
    )
    | st.fixed_dictionaries(
        {"role": st.just("tool"), "content": _TEXT, "tool_call_id": _TEXT}, optional={"name": _TEXT, **_BESIDE}
    )
)


@given(_MESSAGES)
def test_what_a_client_gives_it_gets_back(message: dict[str, Any]) -> None:
    stored = stored_message(message, "m")
    (read,) = messages_from_dict([json.loads(json.dumps(stored))])
    shown = chat_message(to_stored(read))
    assert _plain(shown) == _plain(message)


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """With arguments as what they mean: they are texts that may be written in several ways."""
    calls = [
        (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls", [])
    ]
    return {**message, "tool_calls": calls}

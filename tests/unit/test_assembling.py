"""One message out of chunks, and histories as a provider takes them, beyond what the clients' servers show."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage, UsageMetadata
from langchain_core.messages.tool import tool_call, tool_call_chunk

from agent_md.agents.spec import ModelRef
from agent_md.models.chunk_merging import assemble
from agent_md.models.failures import ProviderFailure
from agent_md.models.history_format import for_model

END = AIMessageChunk("", response_metadata={"model_provider": "openai", "finish_reason": "tool_calls"})


def called(args: str, *, name: str | None = "plain", call_id: str | None = "c", index: int = 0) -> AIMessageChunk:
    part = tool_call_chunk(name=name, args=args, id=call_id, index=index)
    return AIMessageChunk("", tool_call_chunks=[part])


def test_calls_under_one_index_with_ids_of_their_own_are_two() -> None:
    message = assemble([called('{"key": 1}', call_id="a"), called('{"key": 2}', call_id="b"), END])
    assert [(call["id"], call["args"]) for call in message.tool_calls] == [("a", {"key": 1}), ("b", {"key": 2})]


@pytest.mark.parametrize(
    "args",
    [
        '{"key": ',
        '"key"',
        "{'key': 1}",
        '{"key": 1}}',
        '{"key": Infinity}',
        '{"key": 1e999}',
        '{"key": 1, "key": 2}',
        "[" * 100_000,
    ],
)
def test_arguments_that_are_no_object_make_an_invalid_call(args: str) -> None:
    message = assemble([called(args), END])
    assert message.tool_calls == []
    assert [(call["name"], call["id"]) for call in message.invalid_tool_calls] == [("plain", "c")]


def test_a_call_without_a_name_is_kept() -> None:
    message = assemble([called("{}", name=None), END])
    assert [call["name"] for call in message.tool_calls] == [""]


def test_no_arguments_are_none_only_where_the_answer_had_room_for_some() -> None:
    full = AIMessageChunk("", response_metadata={"model_provider": "openai", "finish_reason": "length"})
    assert assemble([called(""), END]).tool_calls[0]["args"] == {}
    assert assemble([called(""), full]).tool_calls == []


def test_a_refusal_is_final() -> None:
    refused = AIMessageChunk("", additional_kwargs={"refusal": "No."})
    end = AIMessageChunk("", response_metadata={"model_provider": "openai", "finish_reason": "stop"})
    with pytest.raises(ProviderFailure, match=r"refused to answer: No\.") as caught:
        assemble([refused, end])
    assert not caught.value.transient


def test_usage_that_is_told_again_and_again_is_that_of_the_last_chunk() -> None:
    counts = [
        AIMessageChunk(
            "a",
            usage_metadata=UsageMetadata(input_tokens=10, output_tokens=n, total_tokens=10 + n),
            response_metadata={"model_provider": "openai"},
        )
        for n in (1, 2, 3)
    ]
    message = assemble([*counts, AIMessageChunk("", response_metadata={"finish_reason": "stop"})])
    assert message.usage_metadata == UsageMetadata(input_tokens=10, output_tokens=3, total_tokens=13)


CLAUDE: dict[str, Any] = {"model_provider": "anthropic", "stop_reason": "tool_use"}
SAID = AIMessage(
    [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "See."}],
    tool_calls=[tool_call(name="plain", args={"key": "U"}, id="c")],
    additional_kwargs={"extra": 1},
    response_metadata=CLAUDE,
    id="1:ai:0",
)
HISTORY = [HumanMessage("Go."), SAID, ToolMessage("did U", tool_call_id="c", name="plain")]


def test_what_the_provider_itself_said_is_left_as_it_is() -> None:
    assert for_model(HISTORY, ModelRef("anthropic", "x")) == HISTORY
    assert for_model(HISTORY, ModelRef("script", "x")) == HISTORY


@pytest.mark.parametrize("provider", ["google", "openai", "local", "ollama"])
def test_what_another_one_said_is_its_text_and_calls(provider: str) -> None:
    human, said, result = for_model(HISTORY, ModelRef(provider, "x"))
    assert (human, result) == (HISTORY[0], HISTORY[2])
    assert said == AIMessage("See.", tool_calls=SAID.tool_calls, id="1:ai:0")


def test_what_nobody_knows_the_origin_of_is_its_text() -> None:
    plain = AIMessage([{"type": "text", "text": "Hi."}, {"type": "odd"}], additional_kwargs={"x": 1})
    assert for_model([plain], ModelRef("openai", "x")) == [AIMessage("Hi.")]


def test_what_a_server_like_openai_said_stays_there_and_is_made_fit_for_openai() -> None:
    told = {"model_provider": "openai", "finish_reason": "tool_calls"}
    calls = [tool_call(name="n:m", args={}, id=f"functions.n:{number}") for number in (0, 1)]
    history = [
        AIMessage("", tool_calls=calls, response_metadata=told),
        *(ToolMessage("ok", tool_call_id=str(call["id"]), name="n:m") for call in calls),
    ]
    assert for_model(history, ModelRef("local", "x", "http://x.test/v1")) == history
    said, *results = for_model(history, ModelRef("openai", "x"))
    assert isinstance(said, AIMessage)
    assert [call["name"] for call in said.tool_calls] == [result.name for result in results] == ["n_m", "n_m"]
    ids = [call["id"] for call in said.tool_calls]
    assert ids == [result.tool_call_id for result in results if isinstance(result, ToolMessage)]
    assert len({*ids}) == 2
    assert all(re.fullmatch("[A-Za-z0-9_-]{1,40}", call_id or "") for call_id in ids)


def test_a_block_of_a_call_that_got_another_id_is_not_sent() -> None:
    block = {"type": "tool_use", "id": "toolu_1", "name": "plain", "input": {}}
    calls = [tool_call(name="plain", args={}, id="call_0_0")]
    message = AIMessage([{"type": "text", "text": "See."}, block], tool_calls=calls, response_metadata=CLAUDE)
    (sent,) = for_model([message], ModelRef("anthropic", "x"))
    assert sent.content == [{"type": "text", "text": "See."}]

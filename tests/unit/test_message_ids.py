"""Where a message belongs is in its id; a turn counts from the last human message."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent_md.executions.calls import Call
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, CallState, Decision
from agent_md.graph.messages import ai_id, from_stored, text_of, to_stored, tool_id, tool_message, turn_of

ID = ExecutionId(7)
CALL = Call(Position(2, 1), "c1", "shred", {}, Decision.RUN, None, CallState.STARTED, epoch=1)
ASKED, SAID = HumanMessage("?"), AIMessage("!")


@pytest.mark.parametrize(
    ("messages", "turn"),
    [
        ([], 0),
        ([ASKED], 0),
        ([ASKED, SAID], 1),
        ([ASKED, SAID, ToolMessage("x", tool_call_id="1"), SAID], 2),
        ([ASKED, SAID, SAID, ASKED], 0),
        ([ASKED, SAID, ASKED, SAID], 1),
    ],
)
def test_the_next_turn(messages: list[BaseMessage], turn: int) -> None:
    assert turn_of(messages) == turn


def test_ids_are_made_of_positions() -> None:
    assert ai_id(ID, 3) == "7:ai:3"
    assert tool_id(ID, Position(2, 1)) == "7:tool:2.1"
    assert tool_message(ID, CALL, CallOutcome.DONE, "ok").id == "7:tool:2.1"


@pytest.mark.parametrize("outcome", list(CallOutcome))
def test_only_what_was_done_is_a_success(outcome: CallOutcome) -> None:
    message = tool_message(ID, CALL, outcome, "text")
    assert message.status == ("success" if outcome is CallOutcome.DONE else "error")
    assert (message.content, message.tool_call_id, message.name) == ("text", "c1", "shred")


def test_equal_ends_give_equal_messages() -> None:
    assert tool_message(ID, CALL, CallOutcome.DONE, "x") == tool_message(
        ID, replace(CALL, epoch=9), CallOutcome.DONE, "x"
    )


def test_a_message_comes_back_from_its_stored_form_as_it_was() -> None:
    message = AIMessage(
        [{"type": "text", "text": "Hi"}, {"type": "thinking", "thinking": "hm"}],
        id="7:ai:0",
        tool_calls=[{"name": "a", "args": {"n": [1.5, None, "ä"]}, "id": "1"}],
        additional_kwargs={"signature": "c2ln"},
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    )
    assert from_stored([json.loads(json.dumps(to_stored(message)))]) == [message]
    assert text_of(message) == "Hi"


def test_what_no_store_takes() -> None:
    stored = to_stored(AIMessage("a\ud800", tool_calls=[{"name": "a", "args": {"\udfff": "\ud83d\ude00"}, "id": "1"}]))
    assert stored["data"]["content"] == "a\ufffd"
    assert stored["data"]["tool_calls"][0]["args"] == {"\ufffd": "\U0001f600"}
    with pytest.raises(ValueError, match="JSON"):
        to_stored(AIMessage("", additional_kwargs={"n": float("nan")}))

"""Converts messages between LangChain, stored JSON and plain text; creates their ids."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, message_to_dict, messages_from_dict

from agent_md.executions.calls import Call
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome

__all__ = ["ai_id", "from_stored", "placeholder", "text_of", "to_stored", "tool_id", "tool_message", "turn_of"]


def to_stored(message: BaseMessage) -> dict[str, Any]:
    """The whole message as JSON, provider data included; lone surrogates, which no store takes, become U+FFFD.

    Raises TypeError or ValueError for what is not JSON.
    """
    text = json.dumps(message_to_dict(message), ensure_ascii=False, allow_nan=False)
    stored: dict[str, Any] = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    return stored


def from_stored(stored: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    return messages_from_dict(list(stored))


def text_of(message: BaseMessage) -> str:
    """The text of a message without its other blocks (thoughts, images, calls)."""
    return str(message.text)


def ai_id(execution_id: ExecutionId, turn: int) -> str:
    return f"{execution_id}:ai:{turn}"


def tool_id(execution_id: ExecutionId, position: Position) -> str:
    return f"{execution_id}:tool:{position}"


def turn_of(messages: Sequence[BaseMessage]) -> int:
    """The ordinal of the next AI message: how many there are since the last human one."""
    turn = 0
    for message in reversed(messages):
        if message.type == "human":
            break
        turn += isinstance(message, AIMessage)
    return turn


def placeholder(message: BaseMessage) -> BaseMessage:
    """What stands for a message in the thread: its kind and its id. The message itself is in the store, once."""
    if isinstance(message, ToolMessage):
        return ToolMessage("", tool_call_id=message.tool_call_id, id=message.id)
    return AIMessage("", id=message.id)


def tool_message(execution_id: ExecutionId, call: Call, outcome: CallOutcome, text: str) -> ToolMessage:
    """The answer to a call; equal arguments give equal messages, so a repeated step changes nothing."""
    return ToolMessage(
        content=text,
        tool_call_id=call.call_id,
        name=call.tool,
        id=tool_id(execution_id, call.position),
        status="success" if outcome is CallOutcome.DONE else "error",
    )

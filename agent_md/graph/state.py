"""The state of a LangGraph thread: placeholders of messages, stored as deltas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.channels.delta import DeltaChannel

__all__ = ["CallTask", "ThreadState", "append_messages"]

_SNAPSHOT_EVERY = 1000


def append_messages(messages: list[BaseMessage], writes: Sequence[list[BaseMessage]]) -> list[BaseMessage]:
    """Appends in order; a message whose id is there already is the repeat of a step and changes nothing."""
    merged = {message.id: message for message in messages}
    for write in writes:
        for message in write:
            merged.setdefault(message.id, message)
    return list(merged.values())


class ThreadState(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(append_messages, snapshot_frequency=_SNAPSHOT_EVERY)]


class CallTask(TypedDict):
    """What travels in the task of one tool call: its position and the gate's decision. The rest is in the journal."""

    turn: int
    index: int
    decision: str

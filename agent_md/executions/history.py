"""Selects the earlier messages that a new execution starts with. Works on messages in stored form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agent_md.executions.states import EventType

__all__ = [
    "LONGEST_RESULT",
    "MESSAGE_EVENTS",
    "conversation_of",
    "lead_of",
    "own_messages",
    "shortened",
    "window_start",
]

LONGEST_RESULT = 4000
"""Characters of a tool result that history keeps; of a longer one, the beginning and the end."""

MESSAGE_EVENTS = (EventType.HUMAN, EventType.AI, EventType.TOOL_RESULT)
"""The events that hold a message."""

_KEPT_AT_END = 1000


def window_start(messages: Sequence[dict[str, Any]], limit: int) -> int:
    """The index at which the window starts: the last `limit` messages, moved forward to a human one, so that it never
    starts inside a tool exchange; the number of messages if it is empty."""
    start = max(0, len(messages) - limit) if limit > 0 else len(messages)
    tail = enumerate(messages[start:], start)
    return next((index for index, message in tail if message["type"] == "human"), len(messages))


def lead_of(own: Sequence[dict[str, Any]], begun: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The execution's own messages before the human one, with the instructions that its session was created with."""
    instructions = [str(message["data"]["content"]) for message in begun if message["type"] == "system"]
    return _with_instructions(own[:-1], instructions)


def conversation_of(begun: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was said among the messages that a session was created with. System messages are instructions: they go to the
    system prompt (`lead_of`) and count for no window."""
    return [message for message in begun if message["type"] != "system"]


def _with_instructions(seed: Sequence[dict[str, Any]], texts: Sequence[str]) -> list[dict[str, Any]]:
    if not texts:
        return list(seed)
    own = [str(message["data"]["content"]) for message in seed]
    return [{"type": "system", "data": {"content": "\n\n".join([*own, *texts]), "id": "system"}}]


def own_messages(events: Iterable[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The messages of one execution in conversation order, from keys and data of its `MESSAGE_EVENTS`: results are
    stored in the order in which their calls ended."""
    return [data["message"] for _, data in sorted(events, key=lambda event: _place(event[0]))]


def _place(key: str) -> tuple[int, int]:
    """Where a message stands: turn, and call in it; -1 is before the first of them."""
    kind, _, position = key.partition(":")
    turn, _, index = position.partition(".")
    match kind:
        case "ai":
            return int(turn), -1
        case "result":
            return int(turn), int(index)
        case _:
            return -1, -1


def shortened(message: dict[str, Any]) -> dict[str, Any]:
    """A message as history has it: of a long tool result the beginning and the end."""
    content = message["data"].get("content")
    if message["type"] != "tool" or not isinstance(content, str) or len(content) <= LONGEST_RESULT:
        return message
    head, tail = content[: LONGEST_RESULT - _KEPT_AT_END], content[-_KEPT_AT_END:]
    left_out = len(content) - len(head) - len(tail)
    short = f"{head}\n[… {left_out} characters of this result are left out of the history …]\n{tail}"
    return {**message, "data": {**message["data"], "content": short}}

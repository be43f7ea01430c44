"""Conversations: which messages of past executions a new one begins with. Works on messages in stored form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agent_md.executions.model import EventType

__all__ = ["LONGEST_RESULT", "MESSAGE_EVENTS", "first_messages", "own_messages", "window"]

LONGEST_RESULT = 4000
"""Characters of a tool result that history keeps; of a longer one, the beginning and the end."""

MESSAGE_EVENTS = (EventType.HUMAN, EventType.AI, EventType.TOOL_RESULT)
"""The events that hold a message."""

_KEPT_AT_END = 1000


def window(messages: Sequence[dict[str, Any]], limit: int) -> list[dict[str, Any]]:
    """The last `limit` messages, cut forward to a human one, so that it never begins inside a tool exchange.

    Long tool results are shortened; every other message is as it was stored, provider data included.
    """
    tail = list(messages[-limit:]) if limit > 0 else []
    start = next((index for index, message in enumerate(tail) if message["type"] == "human"), len(tail))
    return [_shortened(message) for message in tail[start:]]


def first_messages(
    own: Sequence[dict[str, Any]], begun: Sequence[dict[str, Any]], past: Sequence[dict[str, Any]], limit: int
) -> list[dict[str, Any]]:
    """The seed of a new execution: its own first messages with the window of its conversation before the human one.

    `begun` are the messages that the session was created with, `past` those of its turns, of which the last `limit`
    suffice. System messages among them are instructions: they go to the system prompt and count for no window.
    """
    instructions = [str(message["data"]["content"]) for message in begun if message["type"] == "system"]
    talk = [message for message in begun if message["type"] != "system"]
    return [*_with_instructions(own[:-1], instructions), *window([*talk, *past], limit), *own[-1:]]


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


def _shortened(message: dict[str, Any]) -> dict[str, Any]:
    content = message["data"].get("content")
    if message["type"] != "tool" or not isinstance(content, str) or len(content) <= LONGEST_RESULT:
        return message
    head, tail = content[: LONGEST_RESULT - _KEPT_AT_END], content[-_KEPT_AT_END:]
    left_out = len(content) - len(head) - len(tail)
    short = f"{head}\n[… {left_out} characters of this result are left out of the history …]\n{tail}"
    return {**message, "data": {**message["data"], "content": short}}

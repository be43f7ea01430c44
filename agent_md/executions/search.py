"""Searches a text in the events of executions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent_md.executions.chat_messages import shown_text
from agent_md.executions.states import EventType

__all__ = ["says"]


def says(kind: EventType, message: str, data: Mapping[str, Any], wanted: str) -> bool:
    """Whether a stored event says the text `wanted`, in upper or lower case, as one of the texts that people read: a
    message, a call's arguments, its result, a question, an answer, an error. Instructions of the agent do not count."""
    folded = wanted.casefold()
    return any(folded in text.casefold() for text in _texts(kind, message, data))


def _texts(kind: EventType, message: str, data: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case EventType.HUMAN | EventType.AI | EventType.TOOL_RESULT:
            yield message or shown_text(data["message"]["data"].get("content"))
        case EventType.TOOL_CALL:
            yield str(data.get("tool_name", ""))
            yield from _strings(data.get("args"))
        case EventType.INTERRUPT:
            yield message
        case EventType.RESUMED:
            yield from _strings(data.get("value"))
        case EventType.COMPLETE:
            yield data.get("error") or ""
        case _:
            return


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value; names of fields are none."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)

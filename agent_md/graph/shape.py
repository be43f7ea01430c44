"""The order that model providers insist on, made when reading: every AI message is followed by its results."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

__all__ = ["provider_shape"]

_CLOSED = "Not executed: the execution ended before this call"


def provider_shape(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with every tool call answered once and in place, in call order.

    Results are found by call id within their own exchange (ids may repeat over a conversation); a missing one is closed
    by a text, one without a call is left out. Nothing else is changed, provider data included.
    """
    shaped: list[BaseMessage] = []
    for start, message in enumerate(messages, 1):
        if isinstance(message, ToolMessage):
            continue
        shaped.append(message)
        if isinstance(message, AIMessage) and message.tool_calls:
            shaped.extend(_results(message, _exchange(messages, start)))
    return shaped


def _exchange(messages: Sequence[BaseMessage], start: int) -> dict[str, ToolMessage]:
    results: dict[str, ToolMessage] = {}
    for index in range(start, len(messages)):
        message = messages[index]
        if not isinstance(message, ToolMessage):
            break
        results.setdefault(message.tool_call_id, message)
    return results


def _results(message: AIMessage, results: dict[str, ToolMessage]) -> list[ToolMessage]:
    return [
        results.get(call["id"] or "")
        or ToolMessage(content=_CLOSED, tool_call_id=call["id"] or "", name=call["name"], status="error")
        for call in message.tool_calls
    ]

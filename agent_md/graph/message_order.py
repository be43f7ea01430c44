"""Orders messages as providers require it: every AI message is followed by its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

__all__ = ["provider_order"]

_CLOSED = "Not executed: the execution ended before this call"


def provider_order(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The messages with every tool call answered once and in place, in call order, under an id of its own.

    Results are found by call id within their own exchange; a missing one is closed by a text, one without a call is
    left out. Clients pair calls and results over the whole conversation, so an id that came before (some models count
    their calls from 0 in every turn) gets a number behind it. Nothing else is changed, provider data included.
    """
    shaped: list[BaseMessage] = []
    taken: set[str] = set()
    for start, message in enumerate(messages, 1):
        if isinstance(message, AIMessage) and message.tool_calls:
            fresh = _fresh_ids(message, taken)
            results = _results(message, _exchange(messages, start))
            shaped.append(_renamed(message, fresh))
            shaped.extend(_answering(result, fresh) for result in results)
            taken.update(fresh.get(call["id"] or "", call["id"] or "") for call in message.tool_calls)
        elif not isinstance(message, ToolMessage):
            shaped.append(message)
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


def _fresh_ids(message: AIMessage, taken: set[str]) -> dict[str, str]:
    """New ids for those of the message's calls that came before."""
    own = {call["id"] or "" for call in message.tool_calls}
    fresh: dict[str, str] = {}
    for call_id in own & taken:
        number = 2
        while (new := f"{call_id}_{number}") in taken or new in own:
            number += 1
        fresh[call_id] = new
    return fresh


def _renamed(message: AIMessage, fresh: dict[str, str]) -> AIMessage:
    if not fresh:
        return message
    calls = [{**call, "id": fresh.get(call["id"] or "", call["id"])} for call in message.tool_calls]
    content = message.content
    if isinstance(content, list):
        content = [_renamed_block(block, fresh) for block in content]
    beside = {name: _renamed_keys(value, fresh) for name, value in message.additional_kwargs.items()}
    return message.model_copy(update={"tool_calls": calls, "content": content, "additional_kwargs": beside})


def _renamed_keys(value: Any, fresh: dict[str, str]) -> Any:
    """Gemini's client keeps the thought signatures of the calls by their ids."""
    return {fresh.get(key, key): kept for key, kept in value.items()} if isinstance(value, dict) else value


def _renamed_block(block: Any, fresh: dict[str, str]) -> Any:
    """Some providers have their calls in the content too."""
    if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call") and block.get("id") in fresh:
        return {**block, "id": fresh[block["id"]]}
    return block


def _answering(result: ToolMessage, fresh: dict[str, str]) -> ToolMessage:
    new = fresh.get(result.tool_call_id)
    return result if new is None else result.model_copy(update={"tool_call_id": new})

"""The history as the model that is asked takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agent_md.agents.spec import ModelRef
from agent_md.models.responses_api import needs_responses

__all__ = ["for_model"]

_NAMES = {
    "google": "google_genai",
    "openai": "openai",
    "local": "openai",
    "anthropic": "anthropic",
    "ollama": "ollama",
}
"""What the clients of our providers call themselves in the messages that they give."""


def for_model(messages: Sequence[BaseMessage], ref: ModelRef) -> list[BaseMessage]:
    """The messages, with what was said in another provider's form reduced to its text and calls: its thoughts,
    signatures and blocks mean nothing here, and are refused. What came in the form of this model is left as it is."""
    name = _NAMES.get(ref.provider)
    if name is None:
        return list(messages)
    form = (name, needs_responses(ref))
    return [_sent(message, form) if isinstance(message, AIMessage) else message for message in messages]


def _sent(message: AIMessage, form: tuple[str, bool]) -> AIMessage:
    told = message.response_metadata
    if (told.get("model_provider"), told.get("object") == "response") != form:
        return AIMessage(str(message.text), tool_calls=message.tool_calls, id=message.id)
    if not isinstance(message.content, list):
        return message
    # A call that got another id is sent from the list of calls; its block would be a second, unanswered one.
    ids = {call["id"] for call in message.tool_calls}
    content = [block for block in message.content if _call_id(block) is None or _call_id(block) in ids]
    return message.model_copy(update={"content": content})


def _call_id(block: str | dict[str, Any]) -> Any:
    if not isinstance(block, dict):
        return None
    return {"tool_use": block.get("id"), "function_call": block.get("call_id")}.get(str(block.get("type")))

"""Converts the history to the form that a given model accepts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from agent_md.agents.spec import ModelRef
from agent_md.executions.images import image_of
from agent_md.models.images import takes_images
from agent_md.models.responses_api import needs_responses

__all__ = ["briefed", "for_model"]

_NAMES = {
    "google": "google_genai",
    "openai": "openai",
    "local": "openai",
    "anthropic": "anthropic",
    "ollama": "ollama",
}
"""What the clients of our providers call themselves in the messages that they give."""


_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Ids and names of calls that every provider takes back; some servers give others, such as `functions.read:0`."""
_NOTHING = "(no text)"
"""What stands for an answer without text and calls: an empty one is refused."""


def for_model(messages: Sequence[BaseMessage], ref: ModelRef) -> list[BaseMessage]:
    """The messages, with those in another provider's form reduced to text and calls: its thoughts, signatures and
    blocks would be refused. Messages in the form of this model stay unchanged, except empty answers. For a model
    without images, a text replaces each image, since the conversation may have started with another model.

    Results follow their calls, as in `provider_order`."""
    name = _NAMES.get(ref.provider)
    if name is None:
        return list(messages)
    form, sees = (name, needs_responses(ref)), takes_images(ref)
    sent: list[BaseMessage] = []
    calls: dict[str, ToolCall] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            own = _form(message) == form
            message = _own(message) if own else _foreign(message)
            # Servers that speak like OpenAI are not OpenAI.
            calls = {} if own and ref.provider != "openai" else _portable(message)
            if calls:
                message = message.model_copy(
                    update={"tool_calls": [calls.get(call["id"] or "", call) for call in message.tool_calls]}
                )
        elif isinstance(message, ToolMessage) and message.tool_call_id in calls:
            call = calls[message.tool_call_id]
            message = message.model_copy(update={"tool_call_id": call["id"], "name": call["name"]})
        elif isinstance(message, HumanMessage) and not sees:
            message = _without_images(message)
        sent.append(message)
    return sent


def _without_images(message: HumanMessage) -> HumanMessage:
    if image_of(message.content) is None:
        return message
    content = [_named(block) if isinstance(block, dict) else block for block in message.content]
    return message.model_copy(update={"content": content})


def _named(block: dict[str, Any]) -> dict[str, Any]:
    if block.get("type") != "image":
        return block
    return {"type": "text", "text": f"[{block.get('mime_type', 'image')}: it cannot be shown to this model]"}


def briefed(messages: Sequence[BaseMessage], text: str) -> list[BaseMessage]:
    """The messages, with this text at the end of the system message they begin with, or as one."""
    if messages and isinstance(messages[0], SystemMessage):
        first, *rest = messages
        return [first.model_copy(update={"content": f"{first.text.rstrip()}\n\n{text}"}), *rest]
    return [SystemMessage(text), *messages]


def _form(message: AIMessage) -> tuple[Any, bool]:
    told = message.response_metadata
    return told.get("model_provider"), told.get("object") == "response"


def _foreign(message: AIMessage) -> AIMessage:
    text = str(message.text)
    if not text.strip():
        text = "" if message.tool_calls else _NOTHING
    return AIMessage(text, tool_calls=message.tool_calls, id=message.id)


def _own(message: AIMessage) -> AIMessage:
    content = message.content
    if isinstance(content, str) and not content.strip() and not message.tool_calls:
        return message.model_copy(update={"content": _NOTHING})
    if isinstance(content, str):
        return message
    # A call that got another id is sent from the list of calls; its block would be a second, unanswered one.
    ids = {call["id"] for call in message.tool_calls}
    kept = [block for block in content if _call_id(block) is None or _call_id(block) in ids]
    return message.model_copy(update={"content": kept if kept or ids else _NOTHING})


def _portable(message: AIMessage) -> dict[str, ToolCall]:
    """The calls whose id or name not everybody takes, by id, under others that everybody does."""
    return {
        call["id"] or "": {**call, "id": _portable_id(call["id"] or ""), "name": _portable_name(call["name"])}
        for call in message.tool_calls
        if not (_ID.fullmatch(call["id"] or "") and _NAME.fullmatch(call["name"]))
    }


def _portable_id(call_id: str) -> str:
    return call_id if _ID.fullmatch(call_id) else f"call_{hashlib.sha256(call_id.encode()).hexdigest()[:24]}"


def _portable_name(name: str) -> str:
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]


def _call_id(block: str | dict[str, Any]) -> Any:
    if not isinstance(block, dict):
        return None
    return {"tool_use": block.get("id"), "function_call": block.get("call_id")}.get(str(block.get("type")))

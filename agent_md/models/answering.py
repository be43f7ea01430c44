"""Asks a chat model once, as a stream, and gives its whole answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    message_chunk_to_message,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.runnables import Runnable

from agent_md.models.failures import ProviderFailure

__all__ = ["stream_answer"]

_MISHAPS = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "OTHER"}
"""Reasons to finish without an answer that do not come again when the model is asked again."""


async def stream_answer(
    model: Runnable[LanguageModelInput, Any], messages: Sequence[BaseMessage], on_text: Callable[[str], None]
) -> AIMessage:
    """The model's answer to `messages`; `on_text` gets each piece of its text as it comes.

    The message is whole (tool calls, provider data, usage counted once) and holds JSON values only: it equals what
    comes back from its stored form. Raises ProviderFailure when the stream broke off or held no answer, and whatever
    the provider raises; `call_with_retry` knows what to do with all of them.
    """
    chunks: list[AIMessageChunk] = []
    async with aclosing(_stream(model, messages)) as stream:
        async for chunk in stream:
            chunks.append(chunk)
            if text := str(chunk.text):
                on_text(text)
    # One sum over all: adding them one by one copies the growing message at every chunk.
    whole = cast(AIMessage, message_chunk_to_message(chunks[0] + chunks[1:]))
    if whole.response_metadata.get("model_provider") == "google_genai":
        _check_google(whole)
        # The last call of the message once more; from chunks of several calls it is their texts in one.
        whole.additional_kwargs.pop("function_call", None)
    return _plain(whole)


async def _stream(
    model: Runnable[LanguageModelInput, Any], messages: Sequence[BaseMessage]
) -> AsyncGenerator[AIMessageChunk, None]:
    """The chunks; at least one."""
    inner = cast(AsyncGenerator[AIMessageChunk, None], model.astream(list(messages)))
    try:
        async with aclosing(inner) as chunks:
            async for chunk in chunks:
                yield chunk
    except ValueError as error:
        # langchain has no class of its own for this.
        if str(error) == "No generation chunks were returned":
            raise ProviderFailure("the stream ended without an answer", transient=True) from None
        raise


def _check_google(message: AIMessage) -> None:
    """A stream of Gemini that was cut between two chunks ends like a whole one, but for its reason to finish."""
    blocked = (message.response_metadata.get("prompt_feedback") or {}).get("block_reason")
    if blocked:
        raise ProviderFailure(f"the prompt was blocked: {getattr(blocked, 'value', blocked)}", transient=False)
    reason = message.response_metadata.get("finish_reason")
    if not reason:
        raise ProviderFailure("the stream broke off before the end of the answer", transient=True)
    if reason not in ("STOP", "MAX_TOKENS") and not message.text and not message.tool_calls:
        raise ProviderFailure(f"no answer, finish reason {reason}", transient=reason in _MISHAPS)


def _plain(message: AIMessage) -> AIMessage:
    stored = json.loads(json.dumps(messages_to_dict([message]), default=str))
    return cast(AIMessage, messages_from_dict(stored)[0])

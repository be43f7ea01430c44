"""Calls a chat model once, with streaming, and returns its whole answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, cast

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, messages_from_dict, messages_to_dict
from langchain_core.runnables import Runnable

from agent_md.models.chunk_merging import assemble
from agent_md.models.failures import ProviderFailure, Trouble

__all__ = ["stream_answer"]

_FEW_CHUNKS = 1000
"""More take so long to put together that others would wait."""


async def stream_answer(
    model: Runnable[LanguageModelInput, Any], messages: Sequence[BaseMessage], on_text: Callable[[str], None]
) -> AIMessage:
    """The model's answer to `messages`; `on_text` gets each piece of its text during streaming.

    The message is complete (tool calls, provider data, usage counted once) and contains JSON values only: it equals the
    message read from its stored form. Raises ProviderFailure if the stream broke or contained no answer, and any error
    of the provider; `call_with_retry` handles all of them."""
    chunks: list[AIMessageChunk] = []
    async with aclosing(_stream(model, messages)) as stream:
        async for chunk in stream:
            chunks.append(chunk)
            if text := str(chunk.text):
                on_text(text)
    if len(chunks) > _FEW_CHUNKS:
        return await asyncio.to_thread(lambda: _plain(assemble(chunks)))
    return _plain(assemble(chunks))


async def _stream(
    model: Runnable[LanguageModelInput, Any], messages: Sequence[BaseMessage]
) -> AsyncGenerator[AIMessageChunk, None]:
    """The chunks; at least one."""
    inner = cast(AsyncGenerator[AIMessageChunk, None], model.astream(list(messages)))
    try:
        async with aclosing(inner) as chunks:
            async for chunk in chunks:
                yield chunk
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ProviderFailure("the stream held a line that is not JSON, or half of one", transient=True) from None
    except ValueError as error:
        # langchain has no class of its own for this.
        if str(error) == "No generation chunks were returned":
            raise ProviderFailure(
                "the stream ended without an answer", transient=True, trouble=Trouble.OTHER_INTERFACE
            ) from None
        raise


def _plain(message: AIMessage) -> AIMessage:
    stored = json.loads(json.dumps(messages_to_dict([message]), default=str))
    return cast(AIMessage, messages_from_dict(stored)[0])

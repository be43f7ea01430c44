"""Ollama through langchain-ollama and its /api/chat."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_ollama import ChatOllama
from ollama import ChatResponse

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.models.failures import ProviderFailure
from agent_md.models.timeouts import timeout_of

__all__ = ["ollama_model"]


class _Ollama(ChatOllama):
    """Sends and gives tool calls as they are, and keeps what the model thought.

    The client takes arguments that happen to be JSON apart (a file's content would become an object), and cuts the
    schemas of tools down to the keys that it knows.
    """

    def _convert_messages_to_ollama_messages(self, messages: list[BaseMessage]) -> Sequence[Any]:
        converted = cast("list[dict[str, Any]]", super()._convert_messages_to_ollama_messages(messages))
        return [_sent(message, whole) for message, whole in zip(converted, messages, strict=True)]

    async def _acreate_chat_stream(
        self, messages: list[BaseMessage], stop: list[str] | None = None, **kwargs: Any
    ) -> AsyncIterator[Mapping[str, Any] | str]:
        request = self._chat_params(messages, stop, **kwargs)
        request["think"] = None  # whether it thinks is the model's choice; `reasoning` only says that it is kept
        body = {name: value for name, value in request.items() if value is not None}
        done = False
        async for part in await self._async_client._request(ChatResponse, "POST", "/api/chat", json=body, stream=True):
            done = done or bool(part.done)
            yield _received(part)
        if not done:
            raise ProviderFailure("the stream broke off before the end of the answer", transient=True)

    async def aclose(self) -> None:
        await self._async_client.close()  # type: ignore[no-untyped-call]


def ollama_model(ref: ModelRef, settings: RunSettings, key: str | None) -> BaseChatModel:
    """A client that asks once a call, at this machine's Ollama if no address is given, whatever the process's
    environment says."""
    assert ref.base_url is not None
    connection: dict[str, Any] = {"timeout": timeout_of(settings), "follow_redirects": False}
    if key is not None:
        connection["headers"] = {"Authorization": f"Bearer {key}"}
    options: dict[str, Any] = {
        "model": ref.name,
        "base_url": ref.base_url,
        "temperature": settings.temperature,
        "num_predict": settings.max_tokens,
        "reasoning": True,
        "client_kwargs": connection,
        "output_version": "v0",
    }
    return _Ollama(**options)


def _sent(message: Mapping[str, Any], whole: BaseMessage) -> dict[str, Any]:
    """Without empty parts; a result says of which tool it is."""
    sent = {name: value for name, value in message.items() if value or name == "content"}
    if isinstance(whole, ToolMessage) and whole.name:
        sent["tool_name"] = whole.name
    return sent


def _received(part: ChatResponse) -> dict[str, Any]:
    """With the arguments as one JSON text, which the client reads as JSON and leaves alone otherwise."""
    received: dict[str, Any] = part.model_dump(exclude_none=True)
    for call in received.get("message", {}).get("tool_calls") or ():
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return received

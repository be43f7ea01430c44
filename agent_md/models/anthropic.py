"""Claude through langchain-anthropic and its Messages API."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from anthropic import AsyncAnthropic, DefaultAsyncHttpxClient
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.models.timeouts import timeout_of

__all__ = ["anthropic_model"]


class _Claude(ChatAnthropic):
    """A chat model that owns its connections: langchain's are shared by all models of a process, on whatever event
    loop."""

    @cached_property
    def _async_client(self) -> AsyncAnthropic:
        options = self._client_params
        http_client = DefaultAsyncHttpxClient(timeout=self.default_request_timeout, follow_redirects=False)
        client = AsyncAnthropic(**options, http_client=http_client)
        client._custom_headers = options["default_headers"]  # without those of ANTHROPIC_CUSTOM_HEADERS
        return client

    async def aclose(self) -> None:
        if "_async_client" in self.__dict__:
            await self._async_client.close()


def anthropic_model(ref: ModelRef, settings: RunSettings, key: str) -> BaseChatModel:
    """A client that asks once a call. Key and address are the given ones, whatever the process's environment says.

    Anthropic insists on a token limit: where none is set, it is the most that the client knows the model to give.
    """
    assert ref.base_url is not None
    options: dict[str, Any] = {
        "model": ref.name,
        "api_key": key,
        "base_url": ref.base_url.rstrip("/").removesuffix("/v1"),
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "max_retries": 0,
        "timeout": timeout_of(settings),
        "output_version": "v0",
    }
    return _Claude(**options)

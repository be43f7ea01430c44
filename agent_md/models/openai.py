"""OpenAI, and compatible servers, through langchain-openai: chat completions, and the Responses API for models that
need it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.outputs import ChatGenerationChunk
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from openai.resources.responses import AsyncResponses
from pydantic import ValidationError

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.models.failures import ProviderFailure
from agent_md.models.responses_api import needs_responses
from agent_md.models.timeouts import timeout_of

__all__ = ["local_model", "openai_model"]

_NO_KEY = "none"
"""What a server without keys is sent as one; the client insists on something."""


class _Chat(ChatOpenAI):
    """A chat model that owns its connections. Marks each chunk with the provider, also an empty one, and with refusals."""

    def _convert_chunk_to_generation_chunk(self, chunk: dict[str, Any], *args: Any) -> ChatGenerationChunk | None:
        converted = super()._convert_chunk_to_generation_chunk(chunk, *args)
        if converted is None:
            return None
        converted.message.response_metadata["model_provider"] = "openai"
        for choice in chunk.get("choices") or ():
            if refusal := (choice.get("delta") or {}).get("refusal"):
                converted.message.additional_kwargs["refusal"] = refusal
        return converted

    async def aclose(self) -> None:
        await self.root_async_client.close()


class _Responses(_Chat):
    """Tells the failures that come in a stream, which the client gives as values that are wrong."""

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        try:
            async for chunk in super()._astream(*args, **kwargs):
                yield chunk
        except ValidationError:
            raise ProviderFailure("the answer has a call whose arguments are no object", transient=True) from None
        except ValueError as error:
            if type(error) is not ValueError:
                raise
            raise ProviderFailure(str(error), transient=any(word in str(error) for word in _PASSING)) from None


class _Interface(AsyncResponses):
    """OpenAI's Responses API, whose whole answer has an object for the arguments of each call: the client takes no
    `null` and no blanks for one."""

    async def create(self, **kwargs: Any) -> Any:
        return _Answer(await super().create(**kwargs))


class _Answer:
    """A stream of OpenAI's client; of its last event the arguments of calls are objects."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aenter__(self) -> _Answer:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            for item in event.response.output if event.type == "response.completed" else ():
                if item.type == "function_call" and item.arguments.strip() in ("", "null"):
                    item.arguments = "{}"
            yield event


_PASSING = ("server_error", "rate_limit_exceeded", "overloaded", "timeout")
"""Codes of failures that come in a stream and need not come again."""


class _LocalChat(_Chat):
    """Sends the token limit under the name that all servers know; the newer one is OpenAI's."""

    def _get_request_payload(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(*args, **kwargs)
        if "max_completion_tokens" in payload:
            payload["max_tokens"] = payload.pop("max_completion_tokens")
        return payload


def openai_model(ref: ModelRef, settings: RunSettings, key: str) -> BaseChatModel:
    """A client that asks once a call. Key and address are the given ones, whatever the process's environment says."""
    assert ref.base_url is not None
    options = _options(ref, settings, key, ref.base_url)
    if not needs_responses(ref):
        return _Chat(**options)
    options["root_async_client"].responses = _Interface(options["root_async_client"])
    # Nothing is kept at OpenAI: the thoughts of the model come along, encrypted, and go back with its calls.
    stateless: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
    return _Responses(**{**options, **stateless, "use_responses_api": True, "output_version": "responses/v1"})


def local_model(ref: ModelRef, settings: RunSettings, key: str | None) -> BaseChatModel:
    """The same for a server at `ref.base_url`, which is not shown a key of OpenAI."""
    assert ref.base_url is not None
    return _LocalChat(**_options(ref, settings, key or _NO_KEY, ref.base_url))


def _options(ref: ModelRef, settings: RunSettings, key: str, address: str) -> dict[str, Any]:
    client = _client(key, address, timeout_of(settings))
    return {
        "model": ref.name,
        "api_key": key,
        "base_url": address,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "root_async_client": client,
        "async_client": client.chat.completions,
        "client": client.chat.completions,  # in place of a second client, for blocking calls, which nobody makes
        "use_responses_api": False,
        "stream_usage": True,
        "stream_chunk_timeout": None,  # the client's own timeout is the same
        "http_socket_options": (),
        "output_version": "v0",
    }


def _client(key: str, address: str, silence: float) -> AsyncOpenAI:
    # Connections of its own: langchain's are shared by all models of a process, on whatever event loop.
    client = AsyncOpenAI(
        api_key=key,
        base_url=address,
        timeout=silence,
        max_retries=0,
        http_client=DefaultAsyncHttpxClient(timeout=silence, follow_redirects=False),
    )
    # Taken from OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS.
    client.organization = client.project = None
    client._custom_headers = {}
    return client

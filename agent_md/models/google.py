"""Gemini through langchain-google-genai. Importing this module takes about a second; the factory does it last."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.errors import UsageError
from agent_md.models.timeouts import timeout_of

__all__ = ["google_model"]


class _Gemini(ChatGoogleGenerativeAI):
    """Sends tool results as the texts they are. The client takes a text that happens to be JSON apart: a model that
    reads `{"a": 1.10}` would see another text than the file has, and `NaN` would make a request nobody accepts."""

    def bind_tools(self, tools: Sequence[Any], tool_config: Any = None, **options: Any) -> Any:
        return super().bind_tools([_open_ended(tool) for tool in tools], tool_config, **options)

    def _prepare_request(self, messages: list[BaseMessage], **kwargs: Any) -> dict[str, Any]:
        return super()._prepare_request([_as_text(message) for message in messages], **kwargs)


def google_model(ref: ModelRef, settings: RunSettings, key: str) -> BaseChatModel:
    """A client that asks once a call. Key and address are the given ones, whatever the process's environment says."""
    assert ref.base_url is not None
    address, version = _address(ref.base_url)
    # The client has defaults of its own for what is not given: the temperature must be None to be the provider's.
    options: dict[str, Any] = {
        "model": ref.name,
        "api_key": key,
        "base_url": address,
        "api_version": version,
        "vertexai": False,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "max_retries": 1,
        "output_version": "v0",
        "timeout": timeout_of(settings),
        # Under the name of either HTTP client that may be there: the key would go along, to anybody's server.
        "client_args": {"follow_redirects": False, "allow_redirects": False},
    }
    model = _Gemini(**options)
    if model.client is not None and model.client.vertexai:
        raise UsageError(
            f"{ref} cannot be used while GOOGLE_GENAI_USE_VERTEXAI or GOOGLE_GENAI_USE_ENTERPRISE turns the Google "
            "client to Vertex AI; unset them"
        )
    return model


def _open_ended(schema: Any) -> Any:
    """Without the keys that say no other arguments are taken: the client warns of each, at every call, and drops it."""
    if isinstance(schema, list):
        return [_open_ended(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "additionalProperties"}
    properties = kept.pop("properties", None)
    kept = {key: _open_ended(value) for key, value in kept.items()}
    if properties is not None:
        kept["properties"] = {name: _open_ended(value) for name, value in properties.items()}
    return kept


def _as_text(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, ToolMessage) or not isinstance(message.content, str):
        return message
    return message.model_copy(update={"content": json.dumps({"output": message.content})})


def _address(base_url: str) -> tuple[str, str | None]:
    """The address without the API version that people copy with it, and that version."""
    found = re.fullmatch(r"(.*?)/(v\d+\w*)/?", base_url)
    return (found[1], found[2]) if found else (base_url, None)

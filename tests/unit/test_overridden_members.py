"""Private members of the providers' clients that we override: one that is not there any more would never be called."""

from __future__ import annotations

import importlib
import inspect

import pytest
from langchain_core.language_models import BaseChatModel


@pytest.mark.parametrize(
    ("provider", "members"),
    [
        ("google", {"_prepare_request", "bind_tools"}),
        ("openai", {"_astream", "_convert_chunk_to_generation_chunk", "_get_request_payload"}),
        ("anthropic", {"_async_client"}),
        ("ollama", {"_acreate_chat_stream", "_convert_messages_to_ollama_messages"}),
    ],
)
def test_what_is_overridden_is_there(provider: str, members: set[str]) -> None:
    module = importlib.import_module(f"agent_md.models.{provider}")
    own = [
        kind
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, BaseChatModel) and kind.__module__ == module.__name__
    ]
    theirs = {
        name
        for kind in own
        for base in kind.__mro__
        if not base.__module__.startswith("agent_md")
        for name in vars(base)
    }
    assert members <= {name for kind in own for name in vars(kind)}
    assert members <= theirs

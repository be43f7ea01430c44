"""Model names, `PROVIDER/NAME`: parsing, and suggestions for wrong ones."""

from __future__ import annotations

import re

from agent_md.agents.defaults import PROVIDERS
from agent_md.agents.names import nearest
from agent_md.agents.spec import ModelRef

__all__ = ["MEANT", "parse_model", "provider_of"]

MEANT = {"gemini": "google", "gpt": "openai", "chatgpt": "openai", "claude": "anthropic", "llama": "ollama"}
"""Providers by what is written for them."""

_MODELS = (
    (re.compile(r"(gpt|chatgpt|o[134])(-|$)"), "openai"),
    (re.compile(r"claude(-|$)"), "anthropic"),
    (re.compile(r"gemini(-|$)"), "google"),
)


def provider_of(model: str) -> str | None:
    """The provider of a model that is known by how its name begins."""
    return next((provider for begins, provider in _MODELS if begins.match(model.lower())), None)


def parse_model(text: str, key: str = "") -> ModelRef:
    """The model that `PROVIDER/NAME` names. Raises ValueError that says what to write, behind `key`."""
    provider, slash, name = text.partition("/")
    if slash and provider in PROVIDERS and name.strip():
        return ModelRef(provider, name)
    near = (MEANT.get(provider.lower()) or nearest(provider, PROVIDERS)) if slash else None
    line = f"{near}/{name or 'NAME'}" if near else f"{provider_of(text) or 'PROVIDER'}/{text}"
    raise ValueError(f'"{text}" is no PROVIDER/NAME; write {key}{line} (the providers are {", ".join(PROVIDERS)})')

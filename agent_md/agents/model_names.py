"""Which provider somebody means who names a model, a product or a company instead."""

from __future__ import annotations

import re

__all__ = ["MEANT", "provider_of"]

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

"""Which models accept images."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agent_md.agents.spec import ModelRef
from agent_md.errors import UsageError

__all__ = ["refuse_images", "takes_images"]

_TAKE_THEM = {
    "google": r"gemini-(?!embedding).*(?<!-tts)|gemma-3.*",
    "anthropic": r"claude-(?!instant|[12]\b).*",
    "openai": r"(chatgpt-4o|gpt-4o|gpt-4\.\d|gpt-4-turbo|gpt-[5-9]).*|o1(?!-mini|-preview).*|o3(?!-mini).*|o4.*",
    "script": r".*",
}
_BY_NAME = re.compile(
    r"(^|[/:._-])(llava|bakllava|moondream|pixtral|minicpm-v|gemma-?3(?!n)|mistral-small-?3\.|llama-?4|qwen[\d.]*-?vl|glm-[\d.]+v)"
    r"|(^|[/:._-])(vision|vl)([/:._-]|$)"
)
"""Names of models that are served by programs which do not say what they take."""


def takes_images(model: ModelRef) -> bool:
    """Whether the model is known to take images, by its provider and name. A script takes whatever it is given."""
    name = model.name.lower()
    if model.provider in _TAKE_THEM:
        return re.fullmatch(_TAKE_THEM[model.provider], name) is not None
    return _BY_NAME.search(name) is not None


def refuse_images(model: ModelRef, messages: Iterable[Mapping[str, Any]]) -> None:
    """Raises UsageError if one of the chat messages has an image and the model takes none."""
    if not takes_images(model) and any(message.get("base64_image") is not None for message in messages):
        raise UsageError(
            f"base64_image: {model} is not known to take images; leave the image out, or give the agent a model that does. "
            "Nothing was said"
        )

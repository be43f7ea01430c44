"""Which OpenAI models support tools only in the Responses API."""

from __future__ import annotations

import re

from agent_md.agents.spec import ModelRef

__all__ = ["needs_responses"]

_VERSION = re.compile(r"gpt-(\d+)(?:\.(\d+))?(?![\d.])")
_FIRST = (5, 4)
"""From gpt-5.4 on, chat completions refuse tools for models that reason."""


def needs_responses(ref: ModelRef) -> bool:
    """Whether the model is asked through the Responses API; all others, and all servers that are not OpenAI's, are
    asked through chat completions."""
    if ref.provider != "openai":
        return False
    if re.match(r"(gpt-\d|o\d).*-(pro|codex)\b", ref.name):
        return True
    found = _VERSION.match(ref.name)
    return found is not None and (int(found[1]), int(found[2] or 0)) >= _FIRST

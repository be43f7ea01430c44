"""What one answer of a model used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_md.agents.spec import ModelRef
from agent_md.executions.model import Usage

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

__all__ = ["usage_of"]


def usage_of(message: AIMessage, ref: ModelRef) -> Usage:
    """Tokens as the provider counted them, 0 if it did not. The cost is what a script says; of every other provider
    it is None, unknown."""
    counted = message.usage_metadata
    return Usage(
        input_tokens=counted["input_tokens"] if counted else 0,
        output_tokens=counted["output_tokens"] if counted else 0,
        cost_usd=float(message.response_metadata.get("cost_usd", 0.0)) if ref.provider == "script" else None,
    )

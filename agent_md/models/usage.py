"""The usage of one model answer, and its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_md.agents.spec import ModelRef
from agent_md.executions.execution import Usage
from agent_md.models.pricing import Price, Prices, price_of

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.messages.ai import UsageMetadata

__all__ = ["cost_of", "usage_of"]

_MILLION = 1_000_000
_MOST = 1_000_000_000_000
"""Tokens of one answer; more are a mistake."""
_PRICED_ELSEWHERE = ("audio", "priority", "flex", "ephemeral_1h_input_tokens")
"""Tokens that cost something else than the table says."""


def usage_of(message: AIMessage, ref: ModelRef, prices: Prices) -> Usage:
    """Tokens as the provider counted them, 0 if it did not. The cost is what a script says, or else comes from the
    prices; None = unknown, because there is no price or because nothing was counted, or nothing that can be true."""
    counted = message.usage_metadata
    given, told = (_tokens(counted["input_tokens"]), _tokens(counted["output_tokens"])) if counted else (None, None)
    if ref.provider == "script":
        cost: float | None = float(message.response_metadata.get("cost_usd", 0.0))
    else:
        price = price_of(ref, prices)
        # No answer comes of nothing: a server that does not count may say 0.
        known = counted and given and told is not None
        cost = cost_of(counted, price) if counted and known and price is not None else None
    return Usage(input_tokens=given or 0, output_tokens=told or 0, cost_usd=cost)


def _tokens(count: int) -> int | None:
    return count if 0 <= count <= _MOST else None


def cost_of(counted: UsageMetadata, price: Price) -> float | None:
    """US dollars for one answer; None if it used something that the price does not tell of.

    LangChain's input tokens include the cached ones, and its output tokens the reasoning.
    """
    given = {key: value for key, value in (counted.get("input_token_details") or {}).items() if isinstance(value, int)}
    told = {key: value for key, value in (counted.get("output_token_details") or {}).items() if isinstance(value, int)}
    if any(details.get(key) for details in (given, told) for key in _PRICED_ELSEWHERE):
        return None
    rates = price.rates_for(counted["input_tokens"])
    cached = given.get("cache_read", 0)
    written = given.get("cache_creation", 0) + given.get("ephemeral_5m_input_tokens", 0)
    reasoning = told.get("reasoning", 0)
    amounts = (
        (max(0, counted["input_tokens"] - cached - written), rates.input),
        (cached, rates.cached_input if rates.cached_input is not None else rates.input),
        (written, rates.cache_write if rates.cache_write is not None else rates.input),
        (max(0, counted["output_tokens"] - reasoning), rates.output),
        (reasoning, rates.reasoning if rates.reasoning is not None else rates.output),
    )
    return sum(tokens * rate for tokens, rate in amounts) / _MILLION

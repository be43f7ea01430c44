"""Estimates the cost of a model call before it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_md.agents.spec import AgentSpec
from agent_md.errors import UsageError
from agent_md.models.pricing import Prices, price_of
from agent_md.models.script_file import load_script

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["Estimate", "estimate_call", "estimate_first_call"]

_MILLION = 1_000_000
_CHARACTERS_PER_TOKEN = 3.0
"""Fewer than in English text, so that other languages and code are not taken for less than they are."""


class Estimate(NamedTuple):
    """US dollars, None = the model has no price; `is_bound`: the call cannot cost more."""

    price: float | None = 0.0
    is_bound: bool = False


def estimate_first_call(spec: AgentSpec, scripts_dir: Path) -> Estimate:
    """What is known before there is a prompt: that of a script, whose turns say what they cost."""
    if spec.model.provider != "script":
        return Estimate()
    try:
        script = load_script(scripts_dir, spec.model.name)
    except UsageError:  # told when it is asked
        return Estimate()
    return Estimate(max(turn.usage.cost for talk in script.conversations for turn in talk.turns), is_bound=True)


def estimate_call(
    spec: AgentSpec,
    messages: Sequence[BaseMessage],
    tools: Sequence[Mapping[str, Any]],
    prices: Prices,
    scripts_dir: Path,
) -> Estimate:
    """The price of the prompt, its tokens counted by its characters; with `max_tokens`, and of a model that is free, it
    is a bound."""
    if spec.model.provider == "script":
        return estimate_first_call(spec, scripts_dir)
    price = price_of(spec.model, prices)
    if price is None:
        return Estimate(None)
    from langchain_core.messages.utils import count_tokens_approximately

    tokens = count_tokens_approximately(
        list(messages), chars_per_token=_CHARACTERS_PER_TOKEN, tools=[dict(tool) for tool in tools]
    )
    rates = price.rates_for(tokens)
    output = max(rates.output, rates.reasoning or 0.0)
    most = spec.settings.max_tokens
    if most is None and output > 0:
        return Estimate(tokens * rates.input / _MILLION)
    return Estimate((tokens * rates.input + (most or 0) * output) / _MILLION, is_bound=True)

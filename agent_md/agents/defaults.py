"""The defaults that config.yaml may set for every agent, and the fields that both files have."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from agent_md.agents.rules import RuleInvalid, parse_rule
from agent_md.agents.spec import OnPending, RunSettings
from agent_md.agents.typed_values import Section
from agent_md.agents.value_formats import duration
from agent_md.agents.yaml_positions import Scalar

__all__ = ["HISTORY", "ON_PENDING", "PROVIDERS", "SETTINGS", "Defaults", "non_empty", "read_settings", "rule"]

PROVIDERS = ("google", "openai", "anthropic", "ollama", "local", "script")
ON_PENDING = ("skip", "parallel")
HISTORY = {"low": 10, "medium": 50, "high": 200, "off": 0}
"""Messages that each word of `history` stands for."""

SETTINGS = (
    "temperature",
    "max_tokens",
    "timeout",
    "max_tool_calls",
    "max_tool_result_bytes",
    "max_execution_tokens",
    "max_cost_usd",
    "max_cost_usd_per_day",
    "loop_detection",
)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What an agent gets where its file says nothing.

    `model` is None when a config sets another `provider` without a model: then every agent must name its own.
    `checkpoint_retention_days` None = never swept.
    """

    provider: str = "google"
    model: str | None = "gemini-2.5-flash"
    settings: RunSettings = field(default_factory=RunSettings)
    history: int = HISTORY["low"]
    on_pending: OnPending = "skip"
    confirm_timeout: float | None = None
    confirm_tools: tuple[str, ...] = ("file_delete", "file_write")
    checkpoint_retention_days: int | None = 30
    max_agent_depth: int = 3

    @property
    def digest(self) -> str:
        """SHA-256 of all of them."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


def read_settings(section: Section, base: RunSettings) -> RunSettings:
    """The limits and model parameters of a mapping over those of `base`. Other keys are not looked at."""
    return replace(
        base,
        temperature=section.number_or_none("temperature", base.temperature, 0, 2),
        max_tokens=section.integer_or_none("max_tokens", base.max_tokens, 1),
        timeout=_seconds(section, "timeout", base.timeout),
        max_tool_calls=section.integer("max_tool_calls", base.max_tool_calls, 0),
        max_tool_result_bytes=section.integer("max_tool_result_bytes", base.max_tool_result_bytes, 1000),
        max_execution_tokens=section.integer("max_execution_tokens", base.max_execution_tokens, 1),
        max_cost_usd=section.number_or_none("max_cost_usd", base.max_cost_usd, 0),
        max_cost_usd_per_day=section.number_or_none("max_cost_usd_per_day", base.max_cost_usd_per_day, 0),
        loop_detection=section.flag("loop_detection", base.loop_detection),
    )


def _seconds(section: Section, key: str, default: float) -> float:
    node = section.node(key)
    if isinstance(node, Scalar):
        with suppress(ValueError):
            section.note(key, f"expected a number of seconds; write {key}: {duration(node.text):g}")
            return default
    return float(section.number(key, default, 1))


def rule(text: str) -> str:
    """A rule as written. Raises ValueError if it is none."""
    try:
        return parse_rule(text).text
    except RuleInvalid as error:
        raise ValueError(str(error)) from None


def non_empty(value: str) -> str:
    """A text that says something. Raises ValueError for an empty one."""
    if not value.strip():
        raise ValueError("expected a text, read an empty one")
    return value

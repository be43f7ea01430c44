"""Timeouts for providers that send no data."""

from __future__ import annotations

from agent_md.agents.spec import RunSettings

__all__ = ["timeout_of"]

_LONGEST = 600.0


def timeout_of(settings: RunSettings) -> float:
    """Seconds without a byte after which a call counts as lost."""
    return min(_LONGEST, settings.timeout)

"""Pausing and resuming triggers."""

from __future__ import annotations

from collections.abc import Sequence

from agent_md.agents.names import name_key
from agent_md.executions.firings import Pause

__all__ = ["paused_by"]


def paused_by(pauses: Sequence[Pause], agent: str) -> Pause | None:
    """The pause that holds an agent's triggers, if there is one."""
    return next((pause for pause in pauses if pause.agent in (None, name_key(agent))), None)

"""The JSON objects of triggers and their firings."""

from __future__ import annotations

from typing import Any

from agent_md.executions.firings import Firing, TriggerState
from agent_md.serialization.times import iso_time

__all__ = ["firing_json", "trigger_json"]


def firing_json(firing: Firing) -> dict[str, Any]:
    """A firing of a trigger: what became of it, and why, if it was skipped."""
    return {
        "id": firing.id,
        "agent_name": firing.agent,
        "trigger": str(firing.trigger),
        "due_at": iso_time(firing.due_at),
        "state": str(firing.state),
        "reason": firing.reason,
        "execution_id": firing.execution_id,
        "decided_at": iso_time(firing.decided_at),
    }


def trigger_json(state: TriggerState) -> dict[str, Any]:
    """How an agent's trigger stands."""
    return {
        "next_run": iso_time(state.next_fire),
        "paused_by": None if state.pause is None else state.pause.by,
        "waiting": list(state.waiting),
        "last_skipped": None if state.skipped is None else firing_json(state.skipped),
    }

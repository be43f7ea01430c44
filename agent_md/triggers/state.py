"""The state of an agent's trigger: its next fire, what blocks it, the last skipped firing."""

from __future__ import annotations

import time

from agent_md.agents.spec import AgentSpec
from agent_md.executions.firings import FiringState, TriggerState
from agent_md.executions.states import Status
from agent_md.ports.clock import Clock
from agent_md.ports.store import Store
from agent_md.triggers.pauses import paused_by
from agent_md.triggers.schedules import next_fire

__all__ = ["trigger_state"]


def trigger_state(store: Store, spec: AgentSpec, clock: Clock = time.time) -> TriggerState:
    """The state of an agent's trigger; an empty one for an agent without."""
    if spec.trigger.type == "manual":
        return TriggerState()
    decided = store.firings.listed(agent=spec.name, states=(FiringState.STARTED, FiringState.SKIPPED), limit=1)
    waiting = store.executions(statuses=(Status.WAITING,), agent=spec.name) if spec.on_pending == "skip" else []
    return TriggerState(
        next_fire=next_fire(store.firings, spec, clock()),
        pause=paused_by(store.firings.pauses(), spec.name),
        waiting=tuple(sorted(item.id for item in waiting if item.session_id is None and item.parent_id is None)),
        skipped=next((firing for firing in decided if firing.state is FiringState.SKIPPED), None),
    )

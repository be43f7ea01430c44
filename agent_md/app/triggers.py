"""The state of agents' triggers: the next fires, what waits, what was skipped."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agent_md.agents.spec import AgentSpec
from agent_md.executions.firings import TriggerState

if TYPE_CHECKING:
    from agent_md.app.app import App

__all__ = ["Triggers"]


class Triggers:
    """Reads the state of triggers of one workspace."""

    def __init__(self, app: App) -> None:
        self._app = app

    def next_fire(self, spec: AgentSpec) -> float | None:
        """When an agent's schedule fires next, in seconds since 1970; None without a schedule, or if it is unknown."""
        if spec.trigger.type != "schedule":
            return None
        from agent_md.triggers.schedules import next_fire

        return next_fire(self._app.reading_store.firings, spec, time.time())

    def state(self, spec: AgentSpec) -> TriggerState:
        """The state of an agent's trigger; an empty state for an agent without one."""
        if spec.trigger.type == "manual":
            return TriggerState()
        from agent_md.triggers.state import trigger_state

        return trigger_state(self._app.reading_store, spec)

    def next_fires(self, spec: AgentSpec, count: int) -> list[str]:
        """The next fires of an agent's schedule as ISO 8601 in its zone; an interval that has not started starts now."""
        if spec.trigger.type != "schedule":
            return []
        from agent_md.triggers.fire_times import at_text, zone_of
        from agent_md.triggers.upcoming import coming

        zone = zone_of(spec.trigger)
        found = coming(self._app.reading_store.firings, [spec], time.time(), count)
        return [at_text(fire.at, zone) for fire in found]

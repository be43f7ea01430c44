"""Describes an agent's trigger in sentences: when it fires next, what blocks it, what was skipped."""

from __future__ import annotations

from datetime import tzinfo

from agent_md.agents.spec import AgentSpec
from agent_md.cli.views.tables import trigger_line
from agent_md.cli.views.times import date_time
from agent_md.executions.firings import TriggerState
from agent_md.serialization import duration_text
from agent_md.visible_text import counted, one_line

__all__ = ["held_text", "skip_rules", "skipped_text", "start_line"]

_HOLDS = {
    "schedule": "its fires are skipped",
    "watch": "what changes is kept",
    "webhook": "deliveries are refused",
}
_CAUGHT_UP = {"skip": "none is started", "once": "the last one is started", "all": "the last ten are started"}


def start_line(spec: AgentSpec, state: TriggerState, next_at: str | None) -> str:
    """What starts an agent, when it starts next, and what blocks it. `next_at` is the next fire in its zone."""
    following = "" if next_at is None or state.next_fire is None else f", next at {next_at}"
    held = held_text(spec, state)
    return f"{one_line(spec.name)} starts by itself: {trigger_line(spec)}{following}" + (f"; {held}" if held else "")


def held_text(spec: AgentSpec, state: TriggerState) -> str | None:
    """Why an enabled agent is not started now although its trigger fires."""
    if state.pause is not None:
        return one_line(f"paused by {state.pause.by}")
    if not state.waiting:
        return None
    first = state.waiting[0]
    which = (
        f"execution {first} waits" if len(state.waiting) == 1 else f"{counted(len(state.waiting), 'execution')} wait"
    )
    return f"{_HOLDS[spec.trigger.type]} while {which} for an answer (agentmd respond {first})"


def skipped_text(state: TriggerState, zone: tzinfo | None = None) -> str | None:
    """What was skipped last, and why; None if what came last was started."""
    if state.skipped is None:
        return None
    return one_line(f"the last fire was skipped, {date_time(state.skipped.due_at, zone)}: {state.skipped.reason}")


def skip_rules(spec: AgentSpec) -> str:
    """What of this trigger is skipped or kept, and when."""
    trigger, waits = spec.trigger, spec.on_pending == "skip"
    if trigger.type == "webhook":
        return (
            "deliveries are refused while an execution waits for you" if waits else "no delivery is refused for another"
        )
    busy = f"while {'an execution waits for you, or ' if waits else ''}one that it started still works"
    if trigger.type == "watch":
        told = "not told" if trigger.catch_up == "skip" else "told when one starts"
        return (
            f"a change counts after {duration_text(trigger.debounce)} without another one; changes are kept {busy}; "
            f"those made while no server ran are {told} (catch_up: {trigger.catch_up})"
        )
    caught = _CAUGHT_UP[trigger.catch_up]
    return f"a fire is skipped {busy}; of those missed while no server ran {caught} (catch_up: {trigger.catch_up})"

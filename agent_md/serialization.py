"""The JSON shapes of executions, requests, events, agents and sessions, as every face gives them out.

Times are ISO 8601 in UTC with `Z` and milliseconds, `cost_usd` null is an unknown cost, `agent_id` is an agent's name.
What a thing lacks is null; only a preview leaves out what it lacks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from agent_md.agents.spec import AgentSpec
from agent_md.executions.calls import Call
from agent_md.executions.chat_messages import reply
from agent_md.executions.costs import Cost
from agent_md.executions.execution import Event, Execution
from agent_md.executions.firings import Firing, TriggerState
from agent_md.executions.grants import Grant
from agent_md.executions.requests import Request, Retraction
from agent_md.executions.session_interrupts import preview_shape, unknown_call_view
from agent_md.executions.sessions import Session, SessionStatus, error_of
from agent_md.executions.spending import Refusal
from agent_md.executions.states import CallState, Drift, EventType

__all__ = [
    "PathStep",
    "agent_detail",
    "agent_shape",
    "cost_shape",
    "duration_text",
    "event_shape",
    "execution_detail",
    "execution_shape",
    "firing_shape",
    "grant_shape",
    "hook_path",
    "invalid_shape",
    "iso_time",
    "refusal_shape",
    "request_shape",
    "retraction_shape",
    "run_event_line",
    "session_shape",
    "session_summary",
    "trigger_shape",
    "unknown_call_shape",
]

_HISTORY = {0: "off", 10: "low", 50: "medium", 200: "high"}
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


class PathStep(NamedTuple):
    """One execution on the way from a root execution to the one that asks."""

    execution_id: int
    agent: str


def iso_time(at: float | None) -> str | None:
    """Seconds since 1970 as `2026-03-08T16:03:12.345Z`."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def duration_text(seconds: float | None) -> str | None:
    """A duration as agent files write it, in the largest unit that is exact: `90s`, `5m`, `1d`."""
    if seconds is None:
        return None
    for unit, size in _UNITS:
        if seconds and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"


def request_shape(request: Request, *, drift: Sequence[Drift], path: Sequence[PathStep] = ()) -> dict[str, Any]:
    """A request, with its decision if there is one. `outcome` of one whose answer was retracted is `retracted`; the answer
    itself stays.

    `path` runs from the root execution to the asking one; `execution_id` and `agent_id` are the root's. Without a path
    the execution that asks is its own root. `drift`: what is no longer as it was when it was asked.
    """
    steps = path or (PathStep(request.execution_id, request.agent),)
    answer, retraction = request.given, request.retraction
    outcome = None if answer is None else str(answer.outcome)
    return {
        "execution_id": steps[0].execution_id,
        "agent_id": steps[0].agent,
        "request_id": request.id,
        "kind": str(request.kind),
        "message": request.message,
        "tool_name": request.tool_name,
        "tool_args": request.tool_args,
        "options": None if request.options is None else list(request.options),
        "multi": request.multi,
        "questions": None if request.questions is None else list(request.questions),
        "payload": request.payload,
        "response_schema": request.response_schema,
        "preview": None if request.preview is None else preview_shape(request.preview),
        "rule": request.rule,
        "digest": request.digest,
        "proposed_rule": None if request.offer is None else request.offer.rule,
        "drifted": bool(drift),
        "drift": [{"what": str(part)} for part in drift],
        "created_at": iso_time(request.created_at),
        "expires_at": iso_time(request.expires_at),
        "path": [{"execution_id": step.execution_id, "agent_id": step.agent} for step in steps],
        "outcome": outcome if retraction is None else "retracted",
        "answer": None if answer is None else answer.value,
        "answered_by": None if answer is None else answer.answered_by,
        "answered_at": None if answer is None else iso_time(answer.answered_at),
        "recorded_at": None if answer is None else iso_time(answer.recorded_at),
        "grant_id": None if answer is None else answer.grant_id,
        "retracted_by": None if retraction is None else retraction.retracted_by,
        "retracted_at": None if retraction is None else iso_time(retraction.retracted_at),
        "replaced_by": None if retraction is None else retraction.replaced_by,
        "replaces": request.replaces,
    }


def retraction_shape(execution_id: int, retraction: Retraction) -> dict[str, Any]:
    """The retraction of an answer: `replaced_by` is the id of the request that asks again."""
    return {
        "status": "retracted",
        "execution_id": execution_id,
        "request_id": retraction.answer.request_id,
        "retracted_by": retraction.retracted_by,
        "retracted_at": iso_time(retraction.retracted_at),
        "replaced_by": retraction.replaced_by,
    }


def grant_shape(grant: Grant, drift: Sequence[Drift]) -> dict[str, Any]:
    """A grant. `drift`: what is no longer as it was when it was given, which suspends it."""
    return {
        "id": grant.id,
        "agent_id": grant.agent,
        "rule": grant.rule,
        "scope": str(grant.scope),
        "execution_id": grant.execution_id,
        "session_id": grant.session_id,
        "given_by": grant.given_by,
        "given_at": iso_time(grant.given_at),
        "until": iso_time(grant.until),
        "state": str(grant.ended or ("suspended" if drift else "active")),
        "drift": [{"what": str(part)} for part in drift],
        "ended_by": grant.ended_by,
        "ended_at": iso_time(grant.ended_at),
    }


def execution_shape(execution: Execution) -> dict[str, Any]:
    """An execution in a listing. Until it has started, `started_at` is the time of its creation, and `duration_ms`, its
    time of work, is null."""
    return {
        "id": execution.id,
        "agent_id": execution.agent,
        "status": str(execution.status),
        "trigger": str(execution.trigger),
        "session_id": execution.session_id,
        "created_at": iso_time(execution.created_at),
        "started_at": iso_time(execution.created_at if execution.started_at is None else execution.started_at),
        "finished_at": iso_time(execution.finished_at),
        "duration_ms": None if execution.started_at is None else execution.work_ms,
        "input_tokens": execution.usage.input_tokens,
        "output_tokens": execution.usage.output_tokens,
        "total_tokens": execution.usage.total_tokens,
        "cost_usd": execution.usage.cost_usd,
        "error": execution.error,
        "cut": execution.cut,
        "parent_execution_id": execution.parent_id,
        "unknown_calls": execution.unknown_calls,
    }


def execution_detail(execution: Execution, pending: Sequence[dict[str, Any]], calls: Sequence[Call]) -> dict[str, Any]:
    """One execution by itself: also its final text, the shapes of its open requests, and those of its `calls` that may
    have run, settled or not."""
    return {
        **execution_shape(execution),
        "output_data": execution.output,
        "pending": list(pending),
        "may_have_run": [unknown_call_shape(call) for call in calls if call.state is CallState.UNKNOWN],
    }


def unknown_call_shape(call: Call) -> dict[str, Any]:
    """A call that may have run, with what somebody found out about it, if that was done."""
    settled = call.settlement
    return {
        **unknown_call_view(call),
        "ran": None if settled is None else settled.ran,
        "note": None if settled is None else settled.note,
        "settled_by": None if settled is None else settled.settled_by,
        "settled_at": None if settled is None else iso_time(settled.settled_at),
    }


def refusal_shape(refusal: Refusal) -> dict[str, Any]:
    """A run that was refused and not created. `kind`: `budget` or `pending`."""
    return {
        "id": refusal.id,
        "agent_id": refusal.agent,
        "trigger": str(refusal.trigger),
        "session_id": refusal.session_id,
        "kind": str(refusal.kind),
        "reason": refusal.reason,
        "timestamp": iso_time(refusal.at),
    }


def cost_shape(cost: Cost) -> dict[str, Any]:
    """A sum of what model calls cost, without what it is of. `cost_usd` null: the cost of some of them is unknown."""
    return {
        "calls": cost.calls,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
        "total_tokens": cost.input_tokens + cost.output_tokens,
        "cost_usd": cost.usd,
        "known_cost_usd": cost.known_usd,
        "calls_of_unknown_cost": cost.unknown,
    }


def event_shape(event: Event) -> dict[str, Any]:
    """A stored event as an entry of the log. `metadata` is its data as a JSON string."""
    return {
        "id": event.seq,
        "execution_id": event.execution_id,
        "timestamp": iso_time(event.at),
        "event_type": str(event.type),
        "message": _message(event),
        "metadata": json.dumps(event.data),
    }


def _message(event: Event) -> str:
    """The text of an event; that of a result begins with the name of its tool, as that of a call does."""
    if event.type is EventType.TOOL_RESULT:
        return f"{event.data['tool_name']} ← {event.message}"
    return event.message


def run_event_line(event: Event, execution: Execution, requests: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """A stored event as one line of `run --json`.

    The first event is called `execution_started`, the others by their type; what an event holds stands beside its
    name, except the full message in provider form. `requests` are shapes: a `waiting` line carries those of the open
    ones, and an `interrupt` line has all that the shape of its own has.
    """
    started = event.type is EventType.SYSTEM
    line: dict[str, Any] = {
        "event": "execution_started" if started else str(event.type),
        "execution_id": event.execution_id,
        "id": event.seq,
        "timestamp": iso_time(event.at),
        "message": _message(event),
    }
    if started:
        line |= {"agent_name": execution.agent, "trigger": str(execution.trigger)}
    if event.type is EventType.WAITING:
        line["requests"] = list(requests)
    beside = dict(event.data)
    if event.type is EventType.INTERRUPT:
        for request in requests:
            beside |= request
    return line | {key: value for key, value in beside.items() if key not in line}


def agent_shape(
    spec: AgentSpec, workspace: Path = Path(), *, last_run: float | None = None, next_run: float | None = None
) -> dict[str, Any]:
    """An agent in a listing, with its file below `workspace`. `last_run` and `next_run` in seconds since 1970."""
    return {
        "name": spec.name,
        "description": spec.description,
        "icon": spec.icon,
        "enabled": spec.enabled,
        "trigger_type": spec.trigger.type,
        "model_provider": spec.model.provider,
        "model_name": spec.model.name,
        "source_path": str(workspace / spec.source_path),
        "last_run": iso_time(last_run),
        "next_run": iso_time(next_run),
    }


def hook_path(spec: AgentSpec) -> str | None:
    """Where the webhook of an agent takes deliveries, below the address of a server; None if it has none."""
    return f"/agents/{quote(spec.name, safe='')}/hooks" if spec.trigger.type == "webhook" else None


def agent_detail(
    spec: AgentSpec, workspace: Path = Path(), *, last_run: float | None = None, next_run: float | None = None
) -> dict[str, Any]:
    """One agent by itself: also how it is set up. Durations and `history` as agent files write them."""
    return agent_shape(spec, workspace, last_run=last_run, next_run=next_run) | {
        "history": _HISTORY.get(spec.history, str(spec.history)),
        "settings": asdict(spec.settings),
        "paths": {mount.alias: mount.path for mount in spec.paths},
        "path_details": {
            mount.alias: {"path": mount.path, "description": mount.description, "mode": mount.mode}
            for mount in spec.paths
        },
        "custom_tools": list(spec.tools),
        "mcp": list(spec.mcp),
        "skills": list(spec.skills),
        "trigger_every": duration_text(spec.trigger.every),
        "trigger_cron": spec.trigger.cron,
        "trigger_paths": list(spec.trigger.paths),
        "trigger_hook": hook_path(spec),
        "confirm": list(spec.confirm),
        "auto_approve": list(spec.auto_approve),
        "on_pending": spec.on_pending,
        "confirm_timeout": duration_text(spec.confirm_timeout),
    }


def session_shape(session: Session, interrupts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A session with what its last turn came to; a turn under way has neither `response` nor `error` yet.

    `interrupts` are the views of its open requests, oldest first; they belong to one that is interrupted, and only to
    such a one.
    """
    turn, status = session.turn, session.status
    response = error = None
    if turn is not None and status is SessionStatus.IDLE:
        response = reply(turn.output or "")
    elif turn is not None and status is SessionStatus.ERROR:
        error = error_of(turn)
    return {
        "session_id": session.id,
        "status": str(status),
        "response": response,
        "error": error,
        "interrupts": list(interrupts) if status is SessionStatus.INTERRUPTED else None,
        **({"cut": turn.cut} if response is not None and turn is not None and turn.cut is not None else {}),
    }


def session_summary(session: Session, total_messages: int) -> dict[str, Any]:
    """A session in a listing."""
    return {
        "session_id": session.id,
        "agent": session.agent,
        "total_messages": total_messages,
        "status": str(session.status),
    }


def firing_shape(firing: Firing) -> dict[str, Any]:
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


def trigger_shape(state: TriggerState) -> dict[str, Any]:
    """How an agent's trigger stands."""
    return {
        "next_run": iso_time(state.next_fire),
        "paused_by": None if state.pause is None else state.pause.by,
        "waiting": list(state.waiting),
        "last_skipped": None if state.skipped is None else firing_shape(state.skipped),
    }


def invalid_shape(file: str, error: str, last_good: str | None = None) -> dict[str, Any]:
    """An agent file that cannot be used, with the reason, and the agent that a server goes on with as it was before."""
    return {"file": file, "error": error, "last_good": last_good}

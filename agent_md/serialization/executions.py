"""The JSON objects of executions, their costs and their unknown calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_md.executions.calls import Call
from agent_md.executions.costs import Cost
from agent_md.executions.execution import Execution
from agent_md.executions.session_interrupts import unknown_call_view
from agent_md.executions.spending import Refusal
from agent_md.executions.states import CallState
from agent_md.serialization.times import iso_time

__all__ = ["cost_json", "execution_detail", "execution_json", "refusal_json", "unknown_call_json"]


def execution_json(execution: Execution) -> dict[str, Any]:
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
        **execution_json(execution),
        "output_data": execution.output,
        "pending": list(pending),
        "may_have_run": [unknown_call_json(call) for call in calls if call.state is CallState.UNKNOWN],
    }


def unknown_call_json(call: Call) -> dict[str, Any]:
    """A call that may have run, with what somebody found out about it, if that was done."""
    settled = call.settlement
    return {
        **unknown_call_view(call),
        "ran": None if settled is None else settled.ran,
        "note": None if settled is None else settled.note,
        "settled_by": None if settled is None else settled.settled_by,
        "settled_at": None if settled is None else iso_time(settled.settled_at),
    }


def refusal_json(refusal: Refusal) -> dict[str, Any]:
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


def cost_json(cost: Cost) -> dict[str, Any]:
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

"""Webhooks as frozen data: events, targets and deliveries.

A delivery is made of one stored event and one target. Its `event_id` is made of the same two, so whoever makes it again
makes the same one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId, RequestId

__all__ = ["MESSAGE_TARGET", "Delivery", "HookEvent", "NewDelivery", "event_id_of"]

MESSAGE_TARGET = "message"
"""The name of the target that came with the message; those of the agent are `notify:0`, `notify:1` and so on."""


class HookEvent(StrEnum):
    """The kinds of events that webhooks report."""

    COMPLETED = "turn.completed"
    FAILED = "turn.failed"
    """The turn ended as error, timeout or aborted."""
    INTERRUPT = "interrupt.requested"
    UNKNOWN = "call.unknown"
    """A call may have run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """A delivery to make, not before `due_at`. `request_id` is what an INTERRUPT tells of, of UNKNOWN the position of the
    call, None for the others."""

    event_id: str
    event: HookEvent
    execution_id: ExecutionId
    target: str
    """The name of the target."""
    lane: str
    """Who receives it: scheme, host and port. One lane never delays another."""
    event_at: float
    due_at: float
    request_id: RequestId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery(NewDelivery):
    """A stored delivery, taken for an attempt."""

    attempts: int
    """Those that were begun, this one included."""
    first_at: float
    """When the first attempt was begun."""
    body: str | None
    """The JSON that is sent, from the first attempt on the same; None before that."""


def event_id_of(event: Event, target: str) -> str:
    """The id under which this event is told to this target, whenever and wherever it is."""
    made_of = f"{event.seq}\n{event.execution_id}\n{event.key}\n{event.at!r}\n{target}"
    return f"evt_{hashlib.sha256(made_of.encode()).hexdigest()[:32]}"

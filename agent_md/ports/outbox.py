"""Webhook deliveries in the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from agent_md.executions.deliveries import Delivery, NewDelivery
from agent_md.executions.execution import HookTarget
from agent_md.executions.ids import ExecutionId, WorkerId

__all__ = ["Outbox"]


class Outbox(Protocol):
    """Deliveries of webhooks that are not done yet, the targets that came with messages, and the cursor: up to which
    event deliveries were made. A delivery is held by the worker that attempts it, as long as that lives."""

    def cursor(self) -> int:
        """The number of the last event from which deliveries were derived. In a new outbox the newest event: earlier
        ones are never reported."""

    def enqueue(self, new: Sequence[NewDelivery], *, after: int, upto: int) -> bool:
        """Moves the cursor from `after` to `upto` and adds deliveries, those left out that are there. False, with nothing
        done, when the cursor is not at `after`."""

    def target(self, execution_id: ExecutionId) -> HookTarget | None:
        """The target that came with the message of an execution, until its end was told."""

    def next_due(self, *, mine: Collection[str]) -> float | None:
        """When the next delivery is due whose event id is not in `mine`."""

    def undelivered(self, execution_ids: Collection[ExecutionId]) -> int:
        """How many deliveries of these executions are not done."""

    def claim(
        self, worker: WorkerId, *, mine: Collection[str], full: Collection[str], first: bool = False
    ) -> Delivery | None:
        """Takes the delivery that is due the longest and whose lane is not in `full`, and counts an attempt. Not one
        that another living worker holds, nor one of `mine`: those that `worker` is at. With `first` only one that was
        never attempted. None if there is none."""

    def freeze(self, event_id: str, body: str, *, told: Collection[str]) -> bool:
        """Stores the body of a delivery, for this attempt and all others. Removes deliveries of the same execution to
        the same target that have no body yet and would report a request in `told`, because this one reports it.
        False, with nothing done, if the delivery itself was removed."""

    def postpone(self, event_id: str, until: float) -> None:
        """Lets a delivery go until it is due again."""

    def finish(self, event_id: str) -> None:
        """Removes a delivery. With the end of a turn for the target of its message, that target and what else was to
        go there is removed too."""

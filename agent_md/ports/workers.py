"""Liveness of worker processes."""

from __future__ import annotations

from typing import Protocol

from agent_md.executions.ids import WorkerId

__all__ = ["Workers"]


class Workers(Protocol):
    """Knows which workers live, and what dead ones left. A worker is alive exactly as long as its process holds its lock;
    no clock is asked."""

    def alive(self, worker: WorkerId) -> bool:
        """Whether the worker's process exists, running or stopped. Never blocks."""

    def worked(self, worker: WorkerId) -> int:
        """Milliseconds that the worker has worked since it began: a living one of this process now, a dead one at its
        last sign of life. Only differences mean something. Time in which its process or its machine stood still is not
        in it. To ask is a sign of life."""

    def ended_by_order(self, worker: WorkerId) -> bool:
        """Whether the end of a dead worker does not count against its executions: it was asked to stop, or the machine
        was restarted since."""

    def dead(self) -> list[WorkerId]:
        """Dead workers of which something is left."""

    def forget(self, worker: WorkerId) -> None:
        """Removes what is left of a dead worker."""

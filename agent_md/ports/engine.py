"""The engine that drives executions in the background."""

from __future__ import annotations

from typing import Protocol

from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId

__all__ = ["Engine"]


class Engine(Protocol):
    """Drives the executions of a store in the background. It knows them by the store alone, and only ids cross it."""

    def sweep(self) -> None:
        """Settles overdue requests, and begins to drive what nobody drives, as far as there is place. Never raises."""

    async def run(self) -> None:
        """Sweeps at every change of the store, and at the latest within a second, until cancelled."""

    async def close(self, execution_id: ExecutionId) -> Execution:
        """Ends an execution for which `Store.request_cancel` was called, unless a live worker drives it: that one
        obeys by itself. Gives it as it is then."""

    async def stop(self, grace: float, *, hand_over: bool = False) -> None:
        """Lets running executions end for `grace` seconds; the others are cut off and queued again. With `hand_over`,
        running executions start no further model call, but are queued before it."""

"""Queries of the store for families: an execution, with those that its calls have started, and so on."""

from __future__ import annotations

from typing import Protocol

from agent_md.executions.execution import Execution, Spent
from agent_md.executions.ids import ExecutionId, WaitId
from agent_md.executions.positions import Position

__all__ = ["FamilyQueries"]


class FamilyQueries(Protocol):
    """Executions that call others, what they wait for and what they use together."""

    def family(self, execution_id: ExecutionId) -> list[Execution]:
        """The execution and all below it, oldest first."""

    def line(self, execution_id: ExecutionId) -> list[Execution]:
        """The executions from the root to this one."""

    def child(self, execution_id: ExecutionId, position: Position) -> Execution | None:
        """What this call has started."""

    def spent_by(self, execution_id: ExecutionId) -> Spent:
        """What the execution and all below it have used."""

    def waits(self, execution_id: ExecutionId) -> dict[WaitId, bool]:
        """All that calls of the execution wait for or have waited for, and whether it is open: requests without an answer,
        children that have not ended."""

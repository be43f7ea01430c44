"""Queries of the store for what drivers wrote."""

from __future__ import annotations

from typing import Any, Protocol

from agent_md.executions.calls import Call, StepRecord
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position

__all__ = ["JournalQueries"]


class JournalQueries(Protocol):
    """AI messages, calls and steps of executions."""

    def model_step(self, execution_id: ExecutionId, turn: int) -> dict[str, Any] | None:
        """AI message `turn` in stored form, if it was stored."""

    def call(self, execution_id: ExecutionId, position: Position) -> Call | None: ...

    def calls(self, execution_id: ExecutionId, *, turn: int | None = None) -> list[Call]:
        """All calls, or those of one AI message, by position, with their results."""

    def steps(self, execution_id: ExecutionId, position: Position) -> dict[int, StepRecord]:
        """The steps of one call by number."""

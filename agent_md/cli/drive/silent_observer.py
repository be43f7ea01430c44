"""Nobody watches a drive."""

from __future__ import annotations

from agent_md.executions.ids import ExecutionId

__all__ = ["Silent"]


class Silent:
    """`agent_md.ports.ProgressSink` that passes nothing on."""

    def stored(self) -> None:
        """Nothing."""

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """Nothing."""

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        """Nothing."""

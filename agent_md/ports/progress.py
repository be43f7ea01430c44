"""The observer of an execution while it is driven."""

from __future__ import annotations

from typing import Protocol

from agent_md.executions.ids import ExecutionId

__all__ = ["NO_PROGRESS", "ProgressSink"]


class ProgressSink(Protocol):
    """Told by the loop that something happened; must return at once and never raise."""

    def stored(self) -> None:
        """New events are in the store."""

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """A piece of the AI message `turn` has come; only the stored event counts."""

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        """The pieces of the AI message `turn` so far are void: the model is asked again, as `attempt` of `attempts`."""


class _NoProgress:
    def stored(self) -> None:
        """Nothing."""

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """Nothing."""

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        """Nothing."""


NO_PROGRESS: ProgressSink = _NoProgress()
"""Passes nothing on: nobody watches."""

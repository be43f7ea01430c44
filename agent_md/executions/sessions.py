"""Sessions: conversations that have an id."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from agent_md.executions.execution import Execution

__all__ = ["Session", "SessionStatus", "error_of"]


class SessionStatus(StrEnum):
    """Where a session stands, in the words of the sessions interface."""

    IDLE = "idle"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    """A request of its turn is open, also while answered calls run."""
    ERROR = "error"
    """Its last turn ended as error, timeout or aborted; the next one is welcome."""


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation with one agent as the store has it. Times are seconds since 1970 UTC."""

    agent: str
    id: str
    status: SessionStatus
    created_at: float
    changed_at: float
    """When it was created, or when its last turn began or ended."""
    turn: Execution | None
    """The turn under way, else the last one; None before the first."""


def error_of(turn: Execution) -> str:
    """Why a turn failed, or at least how it ended."""
    return turn.error or f"the turn ended as {turn.status}"

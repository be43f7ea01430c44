"""Tool calls of an execution: their states, outcomes and settlements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_md.executions.grants import GrantId

if TYPE_CHECKING:
    pass
from agent_md.executions.positions import Position
from agent_md.executions.requests import CallEffect, NewRequest
from agent_md.executions.states import CallOutcome, CallState, Decision

__all__ = ["Call", "Proposal", "Settlement", "StepRecord"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """The gate's decision on one call of an AI message; `reason` is the text for the model when refused.

    `grants` fit a call that asks: if one of them still holds when the decision is stored, the call runs unasked.
    """

    position: Position
    call_id: str
    tool: str
    args: dict[str, Any]
    decision: Decision
    reason: str | None = None
    request: NewRequest | None = None
    grants: tuple[GrantId, ...] = ()


@dataclass(frozen=True, slots=True)
class Settlement:
    """What somebody found out about a call that may have run."""

    ran: bool
    note: str | None
    settled_by: str
    settled_at: float

    def holds(self, later: Settlement) -> bool:
        """Whether a later one says nothing else; without a note it says only whether the call ran."""
        return self.ran == later.ran and later.note in (None, self.note)


@dataclass(frozen=True, slots=True)
class Call:
    """The journal row of one tool call. `args` are those proposed, or the edited ones once it has started."""

    position: Position
    call_id: str
    tool: str
    args: dict[str, Any]
    decision: Decision
    reason: str | None
    state: CallState
    epoch: int
    effect: CallEffect | None = None
    outcome: CallOutcome | None = None
    result: str | None = None
    settlement: Settlement | None = None
    """Only of a call whose state is `unknown`, which it stays."""
    grant_id: GrantId | None = None
    """The grant by which it runs, although a rule would ask."""

    @property
    def unsettled(self) -> bool:
        """Whether it may have run, and nobody has said whether it did."""
        return self.state is CallState.UNKNOWN and self.settlement is None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What the journal knows of one `step`: its function, and its result or error once it ended."""

    function: str
    state: CallState
    result: Any = None
    error: dict[str, Any] | None = None

"""The writes of the driver of one execution: model messages, calls, steps, end."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_md.executions.calls import Proposal
from agent_md.executions.execution import Claim, NewChild, Usage
from agent_md.executions.grants import GrantId
from agent_md.executions.ids import RequestId, WaitId
from agent_md.executions.positions import Position
from agent_md.executions.requests import CallEffect, NewRequest
from agent_md.executions.spending import Budget, BudgetVerdict
from agent_md.executions.states import CallOutcome, CallState, Status

__all__ = ["ExecutionEnd", "Journal"]


@dataclass(frozen=True, slots=True)
class ExecutionEnd:
    """How an execution ends. `closings` give the text for the model of every call that is still open, by position:
    (state, outcome, text); a position that is closed already is left alone."""

    status: Status
    error: str | None = None
    output: str | None = None
    cut: str | None = None
    """Why the output is not whole, as in Execution."""
    ended_by: str | None = None
    """Recorded as `answered_by` of the requests that the end cancels; None = `policy`."""
    closings: tuple[tuple[Position, CallState, CallOutcome, str], ...] = ()


class Journal(Protocol):
    """The writes of one driver. Each is one transaction that first checks the claim's epoch and that the execution is
    `running`, raising ClaimLost with nothing written if not; adds the time of work since the last write; and, when it
    stores a new event, forgets the execution's attempts, and that it was a suspect. Writing what is there already
    changes nothing.
    """

    @property
    def claim(self) -> Claim: ...

    def worked_ms(self) -> int:
        """The time of work since the journal was made, stored or not."""

    def begin(self, place: str) -> None:
        """Records what is in flight, before it starts: `BETWEEN`, or a model call. The next new event ends it. A call
        that was started in this drive is in flight by its own row. Before the first `begin` nothing is in flight,
        and a death does not count against the execution."""

    def count_attempt(self) -> tuple[str, int]:
        """Counts an attempt that raised where it is; gives the place, and how many attempts in a row ended there."""

    def record_model_step(
        self,
        turn: int,
        message: dict[str, Any],
        text: str,
        usage: Usage,
        proposals: Sequence[Proposal],
        *,
        cut: str | None = None,
    ) -> tuple[str, ...]:
        """Stores AI message `turn` (`ai`), its usage, a journal row a call in state `proposed` (`tool_call`), and the
        requests of all guarded calls (`interrupt`), at once. `cut`: why the message stopped before its end. If the turn
        is there already, nothing of this is. Gives what the log is to be told of the money of the day: see
        `spending.mark_passed`.

        A guarded call one of whose `grants` is usable now is stored as one that runs, by the first of them, and without
        its request."""

    def reserve(self, budget: Budget) -> BudgetVerdict:
        """Reserves the estimated cost of the next model call, if it fits under the limits together with the spent
        amount and the reservations of other executions; see `spending.judge`. The reservation lasts until the
        message is stored, the drive ends or its worker is dead; an execution has at most one. Waiting executions
        form a queue: their amounts count as reserved for those that ask later."""

    def start_call(
        self,
        position: Position,
        args: dict[str, Any],
        effect: CallEffect | None,
        *,
        answered: Collection[RequestId] = (),
        grant_id: GrantId | None = None,
    ) -> None:
        """Moves a call to `started` with the arguments it runs with. The effect comes after this, never before.

        `answered` are the requests whose answers led to this; from now on no answer to the call can be retracted. With
        nothing written it raises AnswerRetracted when one of those was retracted before, GrantLapsed when the grant
        `grant_id`, by which the call is to begin, was revoked, and CancelRequested when the execution is to be
        cancelled."""

    def put_back(self, position: Position, state: CallState) -> None:
        """Undoes `start_call` of a call of which nothing was begun: it has this state again. The answers that led to it
        still cannot be retracted."""

    def pause_call(
        self,
        position: Position,
        requests: Sequence[NewRequest],
        *,
        child: NewChild | None = None,
        answered: Collection[RequestId] = (),
    ) -> None:
        """Moves a call to `paused`, opens the requests (`interrupt`) and creates the child (`child_started`) it waits for;
        requests that are there are left alone. The child is `queued`, or `running` of this worker if the journal
        `keeps_family`.

        With nothing written it raises CallClosed for a tool's requests and for a child when the call is not `started` by
        this driver, CancelRequested instead of creating a child when the execution is to be cancelled, and AnswerRetracted
        as `start_call` does."""

    def finish_call(
        self,
        position: Position,
        state: CallState,
        outcome: CallOutcome,
        text: str,
        message: dict[str, Any],
        *,
        answered: Collection[RequestId] = (),
    ) -> None:
        """Closes a call with its result (`tool_result`): `message` is the tool message in stored form.

        Raises AnswerRetracted as `start_call` does, with nothing written."""

    def begin_step(self, position: Position, number: int, function: str) -> None:
        """Notes that step `number` of a call starts. The effect comes after this.

        With nothing written it raises CancelRequested when the execution is to be cancelled, and CallClosed when the call
        is not `started` by this driver: it was ended meanwhile."""

    def end_step(self, position: Position, number: int, result: Any, error: dict[str, Any] | None) -> None:
        """Keeps a step's JSON result, or its error."""

    def park(self, waits: Collection[frozenset[WaitId]]) -> bool:
        """Parks the execution, and frees the worker. Each of `waits` is what one paused call waits for: if nothing of any of
        them is open, only the time of work is written and False comes back. `waiting` is told if a request of it or of an
        execution below it is open, and of the root then too, if that is parked."""

    def release(self) -> None:
        """Gives the execution back as `queued`; its attempts stay as they are."""

    def finish(self, ending: ExecutionEnd) -> None:
        """Ends the execution (`final_answer` if it has an output, `complete`): open calls are closed (`tool_result`),
        open requests become `cancelled`, what it has called is to be cancelled, the worker is free. Its parent is told
        (`child_ended`), and goes on if it was parked: as `queued`, or as `running` of this worker if the journal
        `keeps_family`."""

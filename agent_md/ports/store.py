"""The store, which all processes share: any of them may answer, one drives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent_md.executions.calls import Settlement
from agent_md.executions.execution import Claim, Execution, NewExecution
from agent_md.executions.firings import FiringId
from agent_md.executions.given_answers import AnswerFilter, GivenAnswer
from agent_md.executions.grants import NewGrant
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Answer, Request, Retraction
from agent_md.executions.states import Outcome
from agent_md.ports.event_queries import EventQueries
from agent_md.ports.execution_queries import ExecutionQueries
from agent_md.ports.family_queries import FamilyQueries
from agent_md.ports.firings import Firings
from agent_md.ports.grants import Grants
from agent_md.ports.journal import Journal
from agent_md.ports.journal_queries import JournalQueries
from agent_md.ports.mcp_lists import McpLists
from agent_md.ports.outbox import Outbox
from agent_md.ports.retention import Retention
from agent_md.ports.sessions import Sessions
from agent_md.ports.showings import Showings

__all__ = ["AnswerReceipt", "Idempotency", "NewAnswer", "Store"]


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A client's key for one creation, unique per agent, and a digest of what it asked for."""

    key: str
    digest: str


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """An answer to record; `value` is already validated. `digest` as in Answer; it does not make answers different.
    `grant` is what the `remember` of the value says."""

    request_id: RequestId
    outcome: Outcome
    value: Any
    digest: str | None = None
    grant: NewGrant | None = None


@dataclass(frozen=True, slots=True)
class AnswerReceipt:
    """What recording answers did.

    `recorded` is False when the same answers were there before. `claim` is set when the execution was taken by the
    recorder in the same transaction.
    """

    answers: tuple[Answer, ...]
    recorded: bool
    claim: Claim | None


class Store(ExecutionQueries, FamilyQueries, JournalQueries, EventQueries, Protocol):
    """Executions, specs as started, requests, answers, events, effect journal, usage and workers."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def outbox(self) -> Outbox: ...

    @property
    def firings(self) -> Firings: ...

    @property
    def grants(self) -> Grants: ...

    @property
    def mcp_lists(self) -> McpLists: ...

    @property
    def showings(self) -> Showings: ...

    @property
    def retention(self) -> Retention: ...

    # Executions

    def create(
        self,
        new: NewExecution,
        *,
        spec: str,
        spec_digest: str,
        skip_if_waiting: bool,
        worker: WorkerId | None,
        idempotency: Idempotency | None = None,
        firing: FiringId | None = None,
    ) -> Execution:
        """Creates an execution with its `system` and `human` events: `running` and claimed by `worker` with epoch 1,
        or `queued` without one. With `skip_if_waiting`, and no parent, raises ConversationWaiting when an execution of
        the same conversation (agent and session id, None included) has an open request; overdue requests are settled
        in the same transaction first.

        Its seed is `new.seed` with the last `new.history` messages of its conversation before the human message, cut as
        in `executions.history`, decided in the same transaction. A session is begun if need be, or UnknownSession and
        ConversationBusy are raised as `new` wants it.

        With `new.budget`, raises BudgetSpent when its first call would not be made. That and ConversationWaiting leave a
        refusal.

        With `idempotency`, before all this: an execution of the agent that was created with this key is given back as
        it is when the body was the same, else IdempotencyMismatch is raised. A refused creation leaves no other trace.

        With `firing`, that firing is started by it, in the same transaction; FiringDecided if it is not due."""

    def claim(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        """Claims a `queued` execution, or a `running` one whose worker is dead, as `running` with the next epoch, with
        nothing started. Also claims a `waiting` one that is to be cancelled, to close it. None if it waits
        otherwise, has ended, is driven by a live worker, or, without `suspects`, is a suspect. The first caller
        wins. Settles the deaths of workers first, like `settle_deaths`."""

    def settle_deaths(self) -> None:
        """Queues what dead workers drove, each with the time of work up to the last sign of life. What a worker had in
        flight when it died makes a suspect, and an attempt if it was the only one in flight, unless its end was ordered
        (`Workers.ended_by_order`)."""

    def abandoned(self) -> list[Execution]:
        """What a new driver could take: `queued`, `running` of dead workers, and `waiting` that are to be cancelled;
        oldest first."""

    def request_cancel(self, execution_id: ExecutionId, by: str) -> Execution:
        """Notes that the execution, and all below it, are to be cancelled; their drivers obey. The first to ask is kept. An
        ended one is left alone. Gives the execution as it is then."""

    def claim_to_cancel(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        """As `claim`, but also takes a `waiting` one; for closing it, not for driving it."""

    def journal(self, claim: Claim, *, keeps_family: bool = False) -> Journal:
        """The fenced writes of the holder of `claim`. The time of work counts from here. `keeps_family`: the worker drives
        what is called, and the parent when it goes on, so that no other process takes them."""

    def settle_call(
        self, execution_id: ExecutionId, position: Position, *, ran: bool, note: str | None, by: str
    ) -> Settlement:
        """Records what became of a call that may have run, beside it; the first to say so is kept, and the same again
        is the first. Raises UnknownExecution, UnknownCall, NothingToSettle, SettledOtherwise."""

    # Requests and answers

    def request(self, request_id: RequestId) -> Request:
        """Raises UnknownRequest."""

    def requests(self, execution_id: ExecutionId, *, family: bool = False) -> list[Request]:
        """All requests of one execution, or of its `family`, oldest first."""

    def open_requests(self, *, limit: int | None = None, offset: int = 0, by_deadline: bool = False) -> list[Request]:
        """Open requests of all executions, oldest first; `by_deadline` those that expire first before them, and those
        that never expire last."""

    def count_open_requests(self) -> int:
        """How many requests are open."""

    def given_answers(self, wanted: AnswerFilter, *, limit: int | None = None) -> list[GivenAnswer]:
        """How requests of all executions were decided, newest first: by humans, policies, deadlines and ends, with the
        answers that were retracted, and with what is left of those in executions that were removed."""

    def next_deadline(self) -> float | None:
        """The earliest `expires_at` of an open request."""

    def record_answers(
        self, answers: Sequence[NewAnswer], *, by: str, claim_for: WorkerId | None = None
    ) -> AnswerReceipt:
        """Records answers to requests of one execution, all or none (`resumed` each); the only method that decides a
        request. A `waiting` execution becomes `queued`, or `running` of `claim_for` with the next epoch, in the same
        transaction; with `claim_for`, a `queued` one is claimed too.

        The first answer wins: equal answers again return the answers of the first receipt with `recorded` False. Raises
        UnknownRequest; AnswerConflict if a request has another decision, also by its deadline: an answer after
        `expires_at` records the expiry; AnswerRetracted if the answer to a request was retracted, whatever the new one
        is.

        The `grant` of an answer is given in the same transaction. An active grant with the same rule, scope and tool is
        extended if it would end earlier, and does not change otherwise."""

    def retract(self, request_id: RequestId, *, by: str) -> Retraction:
        """Retracts the answer to a request before the call acts on it (`retracted`), and opens the request that asks
        again (`interrupt`): the same question with the same deadline, which may have passed. An execution that had
        nothing else to go on with is `waiting` again. The grant that was given with the answer is revoked. Gives the first
        retraction if there was one before.

        With nothing changed it raises UnknownRequest, NothingToRetract for an open one, NotRetractable when the call has
        acted on the answer, or when no human gave it."""

    def settle_overdue(self) -> list[Answer]:
        """Records `expired` by `timeout` for every open request whose deadline has passed; wakes their executions. Also
        ends grants that are past their end."""

    # Workers

    def register_worker(self, worker: WorkerId, pid: int) -> None:
        """Notes a worker that holds its lock already, and forgets dead ones that drove nothing."""

    def worker_pid(self, worker: WorkerId) -> int | None:
        """The process that a worker is or was; None if nothing is noted of it."""

    def forget_worker(self, worker: WorkerId) -> None: ...

    def close(self) -> None: ...

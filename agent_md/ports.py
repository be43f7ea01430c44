"""The ports of the core: what the loop and the faces need of storage, of workers, and of whoever watches.

A store is the meeting point of all processes: any may answer, one drives. Every method is short and blocking; an
implementation may be called from several threads. Unless said otherwise a method raises StoreError (or a kind of it)
when the storage fails, and then nothing of what it was to write is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.deliveries import Delivery, NewDelivery
from agent_md.executions.firings import (
    FileState,
    Firing,
    FiringId,
    FiringState,
    Followed,
    NewFiring,
    Pause,
    ToolRun,
    Written,
)
from agent_md.executions.given_answers import AnswerFilter, GivenAnswer
from agent_md.executions.grants import Grant, GrantId, NewGrant
from agent_md.executions.model import (
    Answer,
    Call,
    CallEffect,
    CallOutcome,
    CallState,
    Claim,
    Event,
    EventType,
    Execution,
    ExecutionId,
    HookTarget,
    NewExecution,
    NewRequest,
    Outcome,
    Position,
    Proposal,
    Request,
    RequestId,
    Retraction,
    Settlement,
    Status,
    StepRecord,
    TriggerKind,
    Usage,
    WorkerId,
)
from agent_md.executions.retention import Removable
from agent_md.executions.sessions import Session
from agent_md.executions.spending import Budget, Judgement, Refusal

__all__ = [
    "AnswerReceipt",
    "Clock",
    "Ending",
    "Engine",
    "Grants",
    "Idempotency",
    "Journal",
    "NewAnswer",
    "Outbox",
    "ProgressSink",
    "Retention",
    "Sessions",
    "Store",
    "Workers",
]

Clock = Callable[[], float]
"""Seconds since 1970 UTC."""


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


@dataclass(frozen=True, slots=True)
class Ending:
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
        """Whether the end of a dead worker says nothing against what it drove: it was told to stop, or the machine was
        started anew since."""

    def dead(self) -> list[WorkerId]:
        """Dead workers of which something is left."""

    def forget(self, worker: WorkerId) -> None:
        """Removes what is left of a dead worker."""


class ProgressSink(Protocol):
    """Told by the loop that something happened; must return at once and never raise."""

    def stored(self) -> None:
        """New events are in the store."""

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """A piece of the AI message `turn` has come; only the stored event counts."""

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        """The pieces of the AI message `turn` so far are void: the model is asked again, as `attempt` of `attempts`."""


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
        """Notes what is in flight from now on, before it begins: `BETWEEN`, or a model call. It is over with the next new
        event. A call that was started in this drive is in flight by its own row. Before the first `begin` nothing is, and
        a death then says nothing against the execution."""

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

    def reserve(self, budget: Budget) -> Judgement:
        """Holds, for the model call that comes next, what it may cost, if it fits under the limits with what is spent and
        what is held for calls of other executions; see `spending.judge`. It is held until the message is stored, the
        drive ends or its worker is dead, and once for an execution. Whoever has to wait is not passed by: what it wants
        counts as held for all that ask after it, until then."""

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
        self, position: Position, requests: Sequence[NewRequest], *, answered: Collection[RequestId] = ()
    ) -> None:
        """Moves a call to `paused` and opens the requests (`interrupt`) it waits for; those there are left alone.

        With nothing written it raises CallClosed for a tool's requests when the call is not `started` by this driver, and
        AnswerRetracted as `start_call` does."""

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

    def park(self, waits: Collection[frozenset[RequestId]]) -> bool:
        """Moves `running` to `waiting` (`waiting`), and frees the worker. Each of `waits` is the set of requests that
        one paused call waits for: if every request of any of them has its answer, only the time of work is written and
        False comes back."""

    def release(self) -> None:
        """Gives the execution back as `queued`; its attempts stay as they are."""

    def finish(self, ending: Ending) -> None:
        """Ends the execution (`final_answer` if it has an output, `complete`): open calls are closed (`tool_result`),
        open requests become `cancelled`, the worker is free."""


class Sessions(Protocol):
    """Sessions, and the conversations that they are. Their turns are executions; a session exists from its creation or
    its first turn on, until it is deleted. A session of the same id that comes after that has nothing of the old one."""

    def create(
        self, agent: str, session_id: str, *, state: Sequence[dict[str, Any]] = (), limit: int | None = None
    ) -> Session:
        """Makes a session that begins with the messages `state` (stored form). Raises SessionExists; TooManySessions
        when there are `limit` of them, of all agents."""

    def get(self, agent: str, session_id: str) -> Session:
        """Raises UnknownSession."""

    def listed(self, *, agent: str | None = None, session_id: str | None = None) -> list[Session]:
        """All sessions, of one agent or with one id; newest first."""

    def totals(self, *, agent: str | None = None) -> dict[tuple[str, str], int]:
        """How many messages each session has, by agent and id. Takes the longer the longer the conversations are."""

    def count(self) -> int:
        """How many sessions there are, of all agents."""

    def turns(self, agent: str, session_id: str) -> list[ExecutionId]:
        """All its turns, oldest first; none if there is no such session."""

    def under_way(self, agent: str, session_id: str) -> list[ExecutionId]:
        """Its turns that have not ended, oldest first; none if there is no such session."""

    def open_requests(self, agent: str, session_id: str) -> list[Request]:
        """Open requests of its turns under way, oldest first; none if there is no such session."""

    def request(self, agent: str, session_id: str, request_id: RequestId) -> Request:
        """A request that one of its turns asked, open or decided. Raises UnknownRequest, also for one of another
        session."""

    def messages(self, agent: str, session_id: str) -> list[dict[str, Any]]:
        """The whole conversation in stored form: what it began with, its ended turns in the order of their ends, and
        what there is of turns under way. A turn that failed before any call started is not in it. Raises UnknownSession."""

    def events(self, agent: str, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events of all its turns with `seq` above `after`, in order. Raises UnknownSession."""

    def delete(self, agent: str, session_id: str, *, by: str) -> list[ExecutionId]:
        """Deletes a session, and gives its turns under way, which are to be cancelled from now on (`request_cancel`).
        Executions and their logs stay. Raises UnknownSession."""

    def expire(self, ttl: float) -> int:
        """Deletes sessions that rest (idle or error) and have not changed for `ttl` seconds; gives how many."""


class Firings(Protocol):
    """Triggers and their firings. Names of agents are compared as everywhere."""

    def follow(self, agent: str, trigger: TriggerKind, digest: str) -> Followed:
        """What is known of the agent's trigger of this kind; it begins now if it is new, or its `digest` is."""

    def followed(self, agent: str, trigger: TriggerKind, digest: str) -> Followed | None:
        """As `follow`, and None for one that has not begun."""

    def advance(
        self,
        agent: str,
        trigger: TriggerKind,
        *,
        after: float,
        upto: float,
        new: Sequence[NewFiring],
        files: Mapping[str, FileState | None] = MappingProxyType({}),
    ) -> bool:
        """Moves `looked_at` from `after` to `upto` and adds the firings, those left out that are there. `files` are the
        watched files that are otherwise now, None = gone. False, with nothing done, when it is not at `after`."""

    def begin_watch(self, agent: str, digest: str, files: Mapping[str, FileState]) -> None:
        """Begins the agent's watch now, anew if it had begun: these are the files that are there."""

    def watched_files(self, agent: str) -> dict[str, FileState]:
        """The watched files of an agent as they were when `looked_at` last moved."""

    def written(self, since: float) -> list[Written]:
        """What the calls of executions wrote, or were about to write, that had not finished before `since`."""

    def tool_runs(self, since: float) -> list[ToolRun]:
        """The other calls, if they were begun, of such executions that a watch started, itself or by one above them."""

    def add(self, new: NewFiring) -> Firing:
        """Adds a firing, or gives the one that is there."""

    def deliver(self, new: NewFiring, keys: Collection[str], since: float) -> Firing:
        """Adds the firing of a delivery that is known by each of `keys`; or gives the one that any of them was added with
        after `since`, unless that was skipped. One whose execution was removed has its id still."""

    def firing(self, firing_id: FiringId) -> Firing:
        """One that is there."""

    def skip(self, firing_id: FiringId, reason: str) -> bool:
        """Decides a firing that is due, which is not started then. False when it was decided before."""

    def due(self) -> list[Firing]:
        """All that are due, oldest first."""

    def listed(
        self,
        *,
        agent: str | None = None,
        states: Collection[FiringState] = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Firing]:
        """Newest first; an empty filter matches all."""

    def pause(self, agent: str | None, by: str) -> None:
        """Pauses the triggers of an agent, or of all (None). The first pause is kept."""

    def resume(self, agent: str | None) -> None:
        """Ends the pause of one agent, or every pause (None)."""

    def pauses(self) -> list[Pause]:
        """That of all first, then by agent."""


class Grants(Protocol):
    """What humans allowed from now on. A grant is given with an answer, by `Store.record_answers`, and never comes alive
    again: one that was found to have expired stays so, whatever the clock says later."""

    def usable(self, execution_id: ExecutionId) -> list[Grant]:
        """Those that hold now for an execution, oldest first: given for it, for its session as long as that lives, or for
        its agent, none of which was otherwise (`spec_digest`); neither revoked nor before their beginning nor past their end."""

    def get(self, grant_id: GrantId) -> Grant:
        """Raises UnknownGrant."""

    def listed(
        self,
        *,
        agents: Collection[str] | None = None,
        ended: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Grant]:
        """Newest first, of all agents or of these; with `ended` also those that allow nothing any more."""

    def revoke(self, grant_id: GrantId, *, by: str) -> Grant:
        """Ends a grant: it lets no later message's calls run unasked, nor calls that have not begun. One that has ended is
        left as it is. Gives it as it is then. Raises UnknownGrant."""


class Retention(Protocol):
    """What may be thrown away. A thread is a cache of its execution; which one is in use is decided here."""

    def latest(self) -> frozenset[ExecutionId]:
        """The newest execution of each agent that has neither a session nor a parent."""

    def renew_threads(self, execution_ids: Collection[ExecutionId]) -> frozenset[ExecutionId]:
        """Gives each of these that has not ended and is not `running` a new thread: whoever drives it from now on never
        looks at the old one, which may be removed at leisure. Gives those that it was done for."""

    def removable(self, ended_before: float) -> Removable:
        """The executions that may be removed with their children: they ended by then, are not the `latest` of an agent and
        in no session that lives, no webhook is still to tell of them, no execution that stays, nor the next one of their
        conversation, begins with messages of theirs, and no grant of theirs may still hold for their agent."""

    def remove_some(self, removable: Removable) -> tuple[list[ExecutionId], Removable]:
        """Removes the first of them, in one short transaction, but those that are needed by now; gives which with what is
        left to be done. What they cost still counts as spent, their idempotency keys stay taken, and who asks for one is
        told that it was removed."""

    def remove_skipped_firings(self, keep: int) -> int:
        """Removes skipped firings of an agent that has more than `keep` of them, its oldest, in one short transaction;
        gives how many, 0 = no agent has more. Where its triggers are stays as it is."""

    def give_back_some(self) -> bool:
        """Gives some of the free room of the storage back; whether there is more."""


class Store(Protocol):
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

    def execution(self, execution_id: ExecutionId) -> Execution:
        """Raises UnknownExecution."""

    def executions(
        self,
        *,
        ids: Collection[ExecutionId] | None = None,
        statuses: Collection[Status] = (),
        agent: str | Collection[str] | None = None,
        session_id: str | None = None,
        unknown: bool | None = None,
        since: float | None = None,
        saying: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Execution]:
        """Newest first. Without `statuses`, and with None, all match; `ids` are the only ones wanted; `agent` is one name,
        or any of several; `unknown`: whether there are `unknown_calls`; `since`: created then or later; `saying`: one of
        their events `says` it (`executions.search`)."""

    def agent_names(self) -> list[str]:
        """The agents that have executions, sorted, as each was written when it ran."""

    def count(self, statuses: Collection[Status]) -> int:
        """How many executions have one of these statuses."""

    def spent(self, since: float, agent: str | None = None) -> float | None:
        """US dollars for model calls since then: of an agent's executions and those below them, or of all; None if the
        cost of one is unknown."""

    def costs(self, by: CostBy, *, agents: Collection[str] | None = None, since: float | None = None) -> list[Cost]:
        """What model calls have cost so far, or since then: of all executions, or of those of these agents, removed ones
        among them.
        Days come newest first, agents and models dearest first."""

    def refusals(
        self,
        *,
        agents: Collection[str] | None = None,
        session_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Refusal]:
        """Runs that were not created, newest first; at least the last 1,000 of all agents are kept."""

    def seed(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        """The first messages of the execution in stored form."""

    def in_thread(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        """Those of its first messages that its thread begins with: none, but all in executions of older versions."""

    def said(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        """What came after its first messages, in stored form: AI messages and results, in conversation order."""

    def spec(self, execution_id: ExecutionId) -> str:
        """The spec it started with, in stored form."""

    def claim(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        """Takes a `queued` execution, or a `running` one whose worker is dead, as `running` with the next epoch, nothing
        of it begun. A `waiting` one that is to be cancelled is taken too, to be closed. None if it waits otherwise, has
        ended, a live worker holds it, or, without `suspects`, if it is one. First come, first served. The deaths of
        workers are settled first, as `settle_deaths` does it."""

    def settle_deaths(self) -> None:
        """Queues what dead workers drove, each with the time of work up to the last sign of life. What a worker had in
        flight when it died makes a suspect, and an attempt if it was the only one in flight, unless its end was ordered
        (`Workers.ended_by_order`)."""

    def abandoned(self) -> list[Execution]:
        """What a new driver could take: `queued`, `running` of dead workers, and `waiting` that are to be cancelled;
        oldest first."""

    def request_cancel(self, execution_id: ExecutionId, by: str) -> Execution:
        """Notes that the execution is to be cancelled; its driver obeys. The first to ask is kept. An ended one is
        left alone. Gives the execution as it is then."""

    def claim_to_cancel(self, execution_id: ExecutionId, worker: WorkerId, *, suspects: bool = True) -> Claim | None:
        """As `claim`, but also takes a `waiting` one; for closing it, not for driving it."""

    def journal(self, claim: Claim) -> Journal:
        """The fenced writes of the holder of `claim`. The time of work counts from here."""

    # What the journal holds

    def model_step(self, execution_id: ExecutionId, turn: int) -> dict[str, Any] | None:
        """AI message `turn` in stored form, if it was stored."""

    def call(self, execution_id: ExecutionId, position: Position) -> Call | None: ...

    def calls(self, execution_id: ExecutionId, *, turn: int | None = None) -> list[Call]:
        """All calls, or those of one AI message, by position, with their results."""

    def steps(self, execution_id: ExecutionId, position: Position) -> dict[int, StepRecord]:
        """The steps of one call by number."""

    def settle_call(
        self, execution_id: ExecutionId, position: Position, *, ran: bool, note: str | None, by: str
    ) -> Settlement:
        """Records what became of a call that may have run, beside it; the first to say so is kept, and the same again
        is the first. Raises UnknownExecution, UnknownCall, NothingToSettle, SettledOtherwise."""

    # Requests and answers

    def request(self, request_id: RequestId) -> Request:
        """Raises UnknownRequest."""

    def requests(self, execution_id: ExecutionId) -> list[Request]:
        """All requests of one execution, oldest first."""

    def open_requests(self, *, limit: int | None = None, offset: int = 0) -> list[Request]:
        """Open requests of all executions, oldest first."""

    def given_answers(self, wanted: AnswerFilter, *, limit: int | None = None) -> list[GivenAnswer]:
        """How requests of all executions were decided, newest first: by humans, policies, deadlines and ends, with the
        answers that were retracted, and with what is left of those in executions that were removed."""

    def next_deadline(self) -> float | None:
        """The earliest `expires_at` of an open request."""

    def record_answers(
        self, answers: Sequence[NewAnswer], *, by: str, claim_for: WorkerId | None = None
    ) -> AnswerReceipt:
        """Records answers to requests of one execution, all or none (`resumed` each); the one place that decides a
        request. A `waiting` execution becomes `queued`, or `running` of `claim_for` with the next epoch, in the same
        transaction; a `queued` one is taken too when `claim_for` is given. The first answer wins: equal answers again
        give the first receipt's answers with `recorded` False. Raises UnknownRequest; AnswerConflict when one was
        decided otherwise, its deadline included: an answer after `expires_at` records the expiry and loses to it;
        AnswerRetracted when the answer to one was retracted, whatever this one is.

        The `grant` of an answer is given in the same transaction; one that still holds, with the same rule, scope and
        tool, is extended if it would end before, and stays as it is if not."""

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

    # Events

    def all_events(self, types: Collection[EventType], *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events of these types of all executions with `seq` above `after`, in order."""

    def has_event(self, seq: int, execution_id: ExecutionId | None = None) -> bool:
        """Whether there is an event with this number, in this execution if one is given."""

    def last_event(self) -> int:
        """The number of the newest event of all, 0 if there is none."""

    def touched(self, after: int) -> tuple[int, frozenset[ExecutionId]]:
        """The number of the newest event of all, and the executions that have events above `after`."""

    def events(self, execution_id: ExecutionId, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events of one execution with `seq` above `after`, in order."""

    def version(self) -> int:
        """A number that changes with every commit of any other process or connection. Costs microseconds."""

    # Workers

    def register_worker(self, worker: WorkerId, pid: int) -> None:
        """Notes a worker that holds its lock already, and forgets dead ones that drove nothing."""

    def worker_pid(self, worker: WorkerId) -> int | None:
        """The process that a worker is or was; None if nothing is noted of it."""

    def forget_worker(self, worker: WorkerId) -> None: ...

    def close(self) -> None: ...


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
        """Lets what is under way end for `grace` seconds; the rest is cut and queued again. With `hand_over` what is
        under way begins no model call any more, but is queued before."""


class Outbox(Protocol):
    """Deliveries of webhooks that are not done yet, the targets that came with messages, and the cursor: up to which
    event deliveries were made. A delivery is held by the worker that attempts it, as long as that lives."""

    def cursor(self) -> int:
        """The number of the last event that deliveries were made of. In a new outbox the last there is: what was before
        it is never told."""

    def enqueue(self, new: Sequence[NewDelivery], *, after: int, upto: int) -> bool:
        """Moves the cursor from `after` to `upto` and adds deliveries, those left out that are there. False, with nothing
        done, when the cursor is not at `after`."""

    def target(self, execution_id: ExecutionId) -> HookTarget | None:
        """The target that came with the message of an execution, until its end was told."""

    def next_due(self, *, mine: Collection[str]) -> float | None:
        """When the next delivery is due whose event id is not in `mine`."""

    def undelivered(self, execution_ids: Collection[ExecutionId]) -> int:
        """How many deliveries of these executions are not done."""

    def claim(
        self, worker: WorkerId, *, mine: Collection[str], full: Collection[str], first: bool = False
    ) -> Delivery | None:
        """Takes the delivery that is due the longest and whose lane is not in `full`, and counts an attempt. Not one
        that another living worker holds, nor one of `mine`: those that `worker` is at. With `first` only one that was
        never attempted. None if there is none."""

    def freeze(self, event_id: str, body: str, *, told: Collection[str]) -> bool:
        """Keeps the body of a delivery, for this attempt and all others. Deliveries of the same execution to the same
        target that have no body yet and would tell of a request in `told` go: this one tells it. False, with nothing
        done, when the delivery itself has gone."""

    def postpone(self, event_id: str, until: float) -> None:
        """Lets a delivery go until it is due again."""

    def finish(self, event_id: str) -> None:
        """Removes a delivery. With the end of a turn for the target of its message, that target and what else was to
        go there is removed too."""

"""Executions as the store keeps them, and the data that creates one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_md.executions.spending import Budget
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.positions import Position, most_attempts
from agent_md.executions.states import EventType, Status, TriggerKind

__all__ = ["Claim", "Event", "Execution", "HookTarget", "NewChild", "NewExecution", "Spent", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost. `cost_usd` None = unknown, which is not 0."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to drive one execution. Every write of its driver carries `epoch`; an older epoch writes nothing."""

    execution_id: ExecutionId
    worker: WorkerId
    epoch: int


@dataclass(frozen=True, slots=True)
class Event:
    """One stored event. `seq` counts up over the workspace and never comes again; `key` is unique per execution."""

    seq: int
    execution_id: ExecutionId
    key: str
    type: EventType
    message: str
    data: dict[str, Any]
    at: float


@dataclass(frozen=True, slots=True)
class HookTarget:
    """Where a webhook tells of an execution. `token` and `secret` are the values themselves, shown nowhere."""

    url: str
    token: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    include_messages: bool = False


@dataclass(frozen=True, slots=True)
class NewExecution:
    """An execution to create. `seed` are its own first messages in stored form, the human message last."""

    agent: str
    trigger: TriggerKind
    seed: tuple[dict[str, Any], ...]
    session_id: str | None = None
    parent_id: ExecutionId | None = None
    history: int = 0
    """How many messages of its conversation it begins with at most."""
    session_must_exist: bool = False
    """Whether a session that is not there, or was deleted, refuses it instead of beginning anew."""
    exclusive: bool = False
    """Whether a turn of its session that is under way refuses it."""
    hook: HookTarget | None = None
    """A webhook for this execution alone."""
    budget: Budget | None = None
    """The limit on the agent's money that its first call meets."""


@dataclass(frozen=True, slots=True)
class NewChild:
    """An execution for a call to start: what is created, with its spec in stored form."""

    new: NewExecution
    spec: str
    spec_digest: str


@dataclass(frozen=True, slots=True)
class Spent:
    """What an execution and all executions below it have used so far."""

    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    """Tool calls that their models asked for."""
    work_ms: int = 0


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of an agent as the store has it.

    `status` is `running` too while it waits for nothing but children that go on: it is `waiting` when a request of it, or
    of an execution below it, is open.
    """

    id: ExecutionId
    agent: str
    spec_digest: str
    trigger: TriggerKind
    status: Status
    created_at: float
    session_id: str | None = None
    parent_id: ExecutionId | None = None
    worker: WorkerId | None = None
    epoch: int = 0
    attempts: int = 0
    """How often in a row a drive ended at the same place without a new stored row: its process died, driving nothing
    else, or it raised. Of several places, the most."""
    attempted: str | None = None
    """That place."""
    suspect: bool = False
    """Whether it was in flight when a process died, and nothing of it was stored since."""
    started_at: float | None = None
    finished_at: float | None = None
    work_ms: int = 0
    """Time of work so far; the time of humans is not in it."""
    usage: Usage = field(default_factory=Usage)
    error: str | None = None
    output: str | None = None
    cut: str | None = None
    """The provider's word for why the output stopped before its end; None = it is whole."""
    unknown_calls: int = 0
    """Calls that may have run, those left out that were settled."""
    cancelled_by: str | None = None
    """Who asked to cancel it; the driver obeys."""
    root_id: ExecutionId | None = None
    """The execution at the top: its own number if no other has called it."""
    position: Position | None = None
    """The call of its parent that started it."""
    parked: bool = False
    """Whether it waits, for answers or for children, and nobody drives it."""
    thread: int = 0
    """The number of its thread in use: how often a thread was abandoned and replaced."""

    @property
    def died_too_often(self) -> bool:
        """Whether it is to be stopped, since its drives end at the same place again and again."""
        return self.attempted is not None and self.attempts >= most_attempts(self.attempted)

    @property
    def root(self) -> ExecutionId:
        """The execution at the top, which people deal with."""
        return self.id if self.root_id is None else self.root_id

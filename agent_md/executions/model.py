"""Executions, their calls, requests, answers and events as frozen data.

All times are seconds since 1970 UTC as float; all durations are milliseconds where the name ends in `_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType

from agent_md.executions.grants import GrantId, GrantOffer

if TYPE_CHECKING:
    from agent_md.executions.spending import Budget

__all__ = [
    "BETWEEN",
    "POSITION",
    "Answer",
    "Call",
    "CallEffect",
    "CallOutcome",
    "CallState",
    "Claim",
    "Decision",
    "Drift",
    "Event",
    "EventType",
    "Execution",
    "ExecutionId",
    "HookTarget",
    "NewExecution",
    "NewRequest",
    "Outcome",
    "Position",
    "Preview",
    "Proposal",
    "Request",
    "RequestContent",
    "RequestId",
    "RequestKind",
    "RequestSource",
    "Retraction",
    "Settlement",
    "Status",
    "StepRecord",
    "ToolSource",
    "TriggerKind",
    "Usage",
    "WorkerId",
    "place_of_call",
    "place_of_turn",
]

POSITION = r"^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$"
"""How positions are written."""

BETWEEN = "outside its model and tool calls"
"""Where a drive is that has begun and has neither a model call nor a tool call in flight: at its tool modules, say."""

ExecutionId = NewType("ExecutionId", int)
RequestId = NewType("RequestId", str)
WorkerId = NewType("WorkerId", str)


class Status(StrEnum):
    """Where an execution stands. The last four are final and never change."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    ABORTED = "aborted"

    @property
    def final(self) -> bool:
        return self in (Status.SUCCESS, Status.ERROR, Status.TIMEOUT, Status.ABORTED)


class TriggerKind(StrEnum):
    """What started an execution."""

    MANUAL = "manual"
    SCHEDULE = "schedule"
    WATCH = "watch"
    AGENT = "agent"
    CHAT = "chat"
    API = "api"
    WEBHOOK = "webhook"


class RequestKind(StrEnum):
    """What a human is asked for."""

    CONFIRM = "confirm"
    INPUT = "input"
    CHOICE = "choice"
    QUESTIONS = "questions"
    CUSTOM = "custom"


class RequestSource(StrEnum):
    """Who raised a request: the gate before a call, or the tool while it ran."""

    GATE = "gate"
    TOOL = "tool"


class Outcome(StrEnum):
    """How a request was decided."""

    APPROVED = "approved"
    DENIED = "denied"
    ANSWERED = "answered"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Decision(StrEnum):
    """What the gate decided about a call when it was proposed; never evaluated again."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


class Drift(StrEnum):
    """What is no longer as it was: the agent's file or the defaults of config.yaml since the execution started, the
    source of the tool since the request was opened."""

    AGENT_FILE = "agent_file"
    CONFIG = "config"
    TOOL = "tool"


class CallState(StrEnum):
    """The journal of a call. `started` of a dead driver becomes `unknown`; `paused` runs again when answered."""

    PROPOSED = "proposed"
    STARTED = "started"
    PAUSED = "paused"
    FINISHED = "finished"
    UNKNOWN = "unknown"

    @property
    def closed(self) -> bool:
        return self in (CallState.FINISHED, CallState.UNKNOWN)


class CallOutcome(StrEnum):
    """What became of a closed call."""

    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    REFUSED = "refused"
    NOT_RUN = "not_run"
    UNKNOWN = "unknown"


class EventType(StrEnum):
    """The types of stored events, in the words of the event stream."""

    SYSTEM = "system"
    HUMAN = "human"
    AI = "ai"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    INTERRUPT = "interrupt"
    WAITING = "waiting"
    RESUMED = "resumed"
    RETRACTED = "retracted"
    FINAL_ANSWER = "final_answer"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A tool call's place in its execution: ordinal of the AI message, index of the call in it; both from 0."""

    turn: int
    index: int

    def __str__(self) -> str:
        return f"{self.turn}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that is written like this. Raises ValueError for what does not match POSITION."""
        turn, index = text.split(".")
        return cls(int(turn), int(index))


def place_of_turn(turn: int) -> str:
    """Where a drive is that asks the model for AI message `turn`, in words."""
    return f"model call {turn}"


def place_of_call(position: Position, tool: str) -> str:
    """Where a drive is that runs this call, in words."""
    return f"call {position} ({tool})"


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
class Preview:
    """What a human sees of a call's effect: the resolved path, the diff of a write or edit, size and type."""

    resolved: str | None = None
    diff: str | None = None
    size: int | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class CallEffect:
    """Digests of a target before a call and after it, JSON-safe, so that an unknown outcome can be settled."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class ToolSource:
    """The source that a custom tool is made of: a module of the tools folder with what it imports from there."""

    module: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContent:
    """What a human is asked, by which call. What its kind lacks is None."""

    id: RequestId
    position: Position
    """The call that asks."""
    source: RequestSource
    kind: RequestKind
    message: str
    digest: str
    """For the gate: of exactly the action shown. For a tool: of kind and payload."""
    action_digest: str | None = None
    """For a tool: of the action that was running when it asked. None in requests of older versions."""
    tool_source: ToolSource | None = None
    """Of a custom tool: what its source was. None for other tools, and in requests of older versions."""
    occurrence: int = 0
    """How often the question was asked before: of the gate, by this call; of a tool, in one pass of it and after
    retractions."""
    tool_name: str | None = None
    tool_args: dict[str, Any] | None = None
    options: tuple[str, ...] | None = None
    multi: bool | None = None
    questions: tuple[dict[str, Any], ...] | None = None
    payload: dict[str, Any] | None = None
    response_schema: dict[str, Any] | None = None
    preview: Preview | None = None
    rule: str | None = None
    """Of the gate: the rule that asks, as `confirm: file_edit`. None in requests of older versions, and where none does."""
    offer: GrantOffer | None = None
    """For the gate: what may be allowed from now on with the answer. None = nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest(RequestContent):
    """A request to open. `expires_in` in seconds, None = never."""

    expires_in: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request was decided. `value` is the validated response; None for expired and cancelled ones. One that has
    expired was decided at its deadline, and `recorded_at` when somebody looked; all others are recorded at once.

    `digest` is of the action that was approved when that is not the one shown: its arguments were edited. `grant_id`: the
    grant that was given, or extended, with it.
    """

    request_id: RequestId
    outcome: Outcome
    value: Any
    answered_by: str
    answered_at: float
    recorded_at: float
    digest: str | None = None
    grant_id: GrantId | None = None
    used_at: float | None = None
    """When the call acted on it: it was started, paused again or closed. From then on the answer cannot be retracted."""


@dataclass(frozen=True, slots=True)
class Retraction:
    """The retraction of an answer, before the call acted on it. `replaced_by` is the request that asks again."""

    answer: Answer
    retracted_by: str
    retracted_at: float
    replaced_by: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(RequestContent):
    """A stored request with its decision, if there is one. It has an `answer`, or a `retraction`, or is open."""

    execution_id: ExecutionId
    agent: str
    created_at: float
    expires_at: float | None = None
    answer: Answer | None = None
    """The answer that counts: None when it was retracted."""
    retraction: Retraction | None = None
    replaces: RequestId | None = None
    """The request whose answer was retracted, so that this one asks again."""

    @property
    def open(self) -> bool:
        return self.answer is None and self.retraction is None

    @property
    def given(self) -> Answer | None:
        """The answer that it was given, whether it counts or was retracted."""
        return self.answer if self.retraction is None else self.retraction.answer

    def time_left(self, now: float) -> float | None:
        """Seconds until it expires; None = it never does. Never more than it was given: the clock may be set back."""
        if self.expires_at is None:
            return None
        return min(self.expires_at - now, self.expires_at - self.created_at)


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
class Execution:
    """One run of an agent as the store has it."""

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
    thread: int = 0
    """Which of its threads is in use: how often one was given up and begun anew."""

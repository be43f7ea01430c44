"""Pydantic models of requests and responses, for validation and OpenAPI. `agent_md.serialization` creates the objects."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from agent_md.api.request_bodies import RequestBody, storable
from agent_md.executions.settlement_note import LONGEST_NOTE

__all__ = [
    "AgentDetail",
    "AgentSummary",
    "CancelAnswer",
    "Conflict",
    "Detail",
    "EventEntry",
    "ExecutionDetail",
    "ExecutionSummary",
    "GrantEntry",
    "Health",
    "Info",
    "Invalid",
    "InvalidFile",
    "Mistake",
    "Open",
    "PendingRequest",
    "RefusedRun",
    "Reloaded",
    "RespondAnswer",
    "RespondBody",
    "RetractAnswer",
    "RetryAnswer",
    "RunAnswer",
    "RunBody",
    "SettleBody",
    "StatusName",
    "Stopping",
    "UnknownCall",
]


class Open(BaseModel):
    """Answers may gain fields."""

    model_config = ConfigDict(extra="allow")


class Detail(Open):
    """What an error says."""

    detail: str = Field(examples=["there is no execution 42; `agentmd logs` lists them"])


class OpenInterrupt(Open):
    interrupt_id: str
    type: str


class Conflict(Detail):
    """An error with what stands in the way."""

    waiting: list[int] | None = Field(default=None, description="Executions that wait for a human.")
    open: list[str] | None = Field(default=None, description="Ids of the open requests, oldest first.")
    requests: list[PendingRequest] | None = Field(
        default=None, description="Requests that had not been shown to who answers without naming one; now they are."
    )
    interrupts: list[OpenInterrupt] | None = Field(
        default=None,
        description="What a session asks that takes no message now, oldest first; none while it only runs.",
    )
    agents: list[str] | None = Field(default=None, description="Agents that have a session of this id.")
    outcome: str | None = Field(default=None, description="How the request was decided.")
    answered_by: str | None = None
    answered_at: str | None = None
    recorded_at: str | None = None
    retracted_by: str | None = Field(default=None, description="Who retracted the answer, so that it is asked again.")
    retracted_at: str | None = None
    replaced_by: str | None = Field(default=None, description="The id of the request that asks again.")
    ran: bool | None = Field(default=None, description="How the call was settled.")
    settled_by: str | None = None
    settled_at: str | None = None


class Mistake(Open):
    """One thing that is wrong with a request, and where."""

    loc: list[str | int]
    msg: str
    type: str


class Invalid(Open):
    """What cannot be taken: in words, or as a list when the request does not have the right form."""

    detail: str | list[Mistake]


class Health(Open):
    status: Literal["ok"]
    working: int = Field(description="Executions that run, or are about to.")
    waiting: int = Field(description="Executions that wait for a human; they take no place.")
    max_workers: int = Field(description="Executions that this server drives at once.")
    running_workers: int = Field(description="Executions that run.")
    total_sessions: int


class Info(Open):
    version: str
    pid: int
    uptime_seconds: float
    agents_loaded: int
    agents_enabled: int
    scheduler_status: Literal["off", "running", "paused"]
    watcher_active: bool
    watcher_problems: dict[str, str]
    config_error: str | None
    restart_needed: list[str]
    tool_problems: dict[str, str]
    untrusted: dict[str, list[str]]
    active_streams: int
    active_executions: int
    waiting_executions: int


class Stopping(Open):
    status: Literal["stopping"]


class AgentSummary(Open):
    name: str
    description: str
    icon: str
    enabled: bool
    trigger_type: str
    model_provider: str
    model_name: str
    source_path: str = Field(description="The agent's file, as an absolute path.")
    last_run: str | None
    next_run: str | None


class PathDetail(Open):
    path: str
    description: str
    mode: str = Field(examples=["rw", "ro"])


class AgentDetail(AgentSummary):
    history: Any
    settings: dict[str, Any]
    paths: dict[str, str] = Field(description="From alias to path.")
    path_details: dict[str, PathDetail] = Field(description="From alias to path, description and mode.")
    custom_tools: list[str]
    mcp: list[str]
    skills: list[str]
    trigger_every: str | None
    trigger_cron: str | None
    trigger_paths: list[str]
    trigger_hook: str | None = Field(
        examples=["/agents/reviewer/hooks"], description="Where its webhook takes deliveries."
    )
    confirm: list[str]
    auto_approve: list[str]
    on_pending: str
    confirm_timeout: str | None


class InvalidFile(Open):
    file: str
    error: str
    last_good: str | None = Field(
        description="The agent that goes on as this file had it when it was valid last; null if there is none."
    )


class Reloaded(Open):
    agents_loaded: int
    config_error: str | None
    restart_needed: list[str]


class RunBody(RequestBody):
    """How to start an agent; everything may be left out."""

    args: list[str] = Field(default_factory=list, description="Fills $1, $2, … and $ARGUMENTS.")
    message: str | None = Field(default=None, description="What to tell the agent.", examples=["Clean the output"])
    session_id: str | None = Field(default=None, min_length=1, max_length=200, description="The conversation.")

    _checked = model_validator(mode="before")(storable)


class RunAnswer(Open):
    execution_id: int
    model: str = Field(examples=["google/gemini-2.5-flash"])


class RetryAnswer(RunAnswer):
    ran: list[str] = Field(examples=[["call 0.0 (file_write)"]], description="Calls of the failed one that ran.")
    may_have_run: list[str] = Field(examples=[[]], description="Calls of it that may have run.")


StatusName = Literal["queued", "running", "waiting", "success", "error", "timeout", "aborted", "failed", "cancelled"]
"""What executions may be asked for by: the statuses, and two names that other clients know for `error` and `aborted`."""


class ExecutionSummary(Open):
    id: int
    agent_id: str
    status: str = Field(
        description="queued (it has work and nobody drives it yet: new, answered, or handed over), running, waiting (for "
        "a human); at its end success, error, timeout or aborted.",
        examples=["queued", "running", "waiting", "success"],
    )
    trigger: str
    session_id: str | None
    created_at: str
    started_at: str = Field(description="Until it has started, the time of its creation.")
    finished_at: str | None
    duration_ms: int | None
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost_usd: float | None = Field(description="null = unknown")
    error: str | None
    cut: str | None = Field(description="Why the final text is not whole: the model's word for it; null = it is.")
    parent_execution_id: int | None
    unknown_calls: int = Field(description="Calls that may have run, and that nobody has settled.")


class RefusedRun(Open):
    id: int
    agent_id: str
    trigger: str
    session_id: str | None
    kind: Literal["budget", "pending"] = Field(description="`pending`: its conversation waited, by `on_pending: skip`.")
    reason: str
    timestamp: str


class PathStep(Open):
    execution_id: int
    agent_id: str


class Drifted(Open):
    what: Literal["agent_file", "config", "tool"]


class PendingRequest(Open):
    execution_id: int
    agent_id: str
    request_id: str
    kind: Literal["confirm", "input", "choice", "questions", "custom"]
    message: str
    tool_name: str | None
    tool_args: dict[str, Any] | None
    options: list[str] | None
    multi: bool | None
    questions: list[dict[str, Any]] | None
    payload: dict[str, Any] | None
    response_schema: dict[str, Any] | None
    preview: dict[str, Any] | None
    rule: str | None = Field(description="Of a call: the rule that asks.", examples=["confirm: file_edit"])
    digest: str
    proposed_rule: str | None = Field(
        description="The widest rule that an approval may `remember`; null when nothing can be allowed from now on."
    )
    drifted: bool
    drift: list[Drifted] = Field(description="What has drifted; empty when nothing has.")
    created_at: str
    expires_at: str | None
    path: list[PathStep]
    outcome: str | None = Field(
        description="How it was decided; null while it is open, `retracted` if it does not count."
    )
    answer: Any
    answered_by: str | None
    answered_at: str | None = Field(description="When it was decided; of what has expired, its deadline.")
    recorded_at: str | None = Field(description="When that was recorded; later only for what has expired.")
    grant_id: int | None = Field(description="The grant that was given with the answer.")
    retracted_by: str | None = Field(description="Who retracted the answer.")
    retracted_at: str | None
    replaced_by: str | None = Field(description="The id of the request that asks again after the retraction.")
    replaces: str | None = Field(description="The id of the request whose answer was retracted: this one asks again.")


class RetractAnswer(Open):
    """An answer that was retracted."""

    status: Literal["retracted"]
    execution_id: int
    request_id: str
    retracted_by: str
    retracted_at: str
    replaced_by: str = Field(description="The id of the request that asks again.")


class UnknownCall(Open):
    """A call that may have run; what is null is not settled."""

    position: str = Field(description="Where it is in the execution: AI message and call, from 0.", examples=["0.1"])
    tool_name: str
    tool_args: dict[str, Any]
    result: str | None = Field(description="What the model was told.")
    ran: bool | None = Field(description="What somebody found out.")
    note: str | None
    settled_by: str | None
    settled_at: str | None


class ExecutionDetail(ExecutionSummary):
    output_data: str | None
    pending: list[PendingRequest]
    may_have_run: list[UnknownCall]


class SettleBody(RequestBody):
    """What became of a call that may have run."""

    ran: StrictBool
    note: str | None = Field(default=None, max_length=LONGEST_NOTE, description="How that is known.")

    _checked = model_validator(mode="before")(storable)


class EventEntry(Open):
    id: int
    execution_id: int
    timestamp: str
    event_type: str
    message: str
    metadata: str = Field(description="A JSON object as text.")


class RespondBody(RequestBody):
    """An answer to a request of the execution."""

    request_id: str | None = Field(default=None, description="May be left out while only one request is open.")
    response: Any = Field(
        description="By kind: {approved, reason?, args?, remember?}, {text}, {selected}, {answers}, or any JSON value.",
        examples=[
            {"approved": True},
            {"approved": True, "remember": {"until": "2h"}},
            {"text": "Monthly Summary"},
            {"selected": ["staging"]},
        ],
    )
    by: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Who answers; kept as `http:NAME`, without a name as `api`.",
    )

    _checked = model_validator(mode="before")(storable)


class RespondAnswer(Open):
    status: Literal["resuming"]
    execution_id: int
    request_id: str = Field(description="The request that was answered.")
    message: str = Field(description="What it asks.")


class GrantEntry(Open):
    """What was allowed from now on, in the answer to a question of `execution_id`."""

    id: int
    agent_id: str
    rule: str = Field(examples=["file_delete(output/*)"])
    scope: Literal["execution", "session", "agent"]
    execution_id: int
    session_id: str | None
    given_by: str
    given_at: str
    until: str | None = Field(description="null = it has no end.")
    state: Literal["active", "suspended", "expired", "revoked", "over"] = Field(
        description="`suspended`: something has drifted; `over`: its execution or session has ended."
    )
    drift: list[Drifted] = Field(description="What has drifted since it was given.")
    ended_by: str | None = Field(description="Who revoked it.")
    ended_at: str | None


class CancelAnswer(Open):
    status: str = Field(examples=["aborted", "cancelling", "success"])
    execution_id: int

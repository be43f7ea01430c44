"""The states, kinds and outcomes of executions, requests and calls, as they are stored."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

__all__ = [
    "CallOutcome",
    "CallState",
    "Decision",
    "Drift",
    "EffectKind",
    "EventType",
    "Outcome",
    "RequestKind",
    "RequestSource",
    "Status",
    "TriggerKind",
]


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


class EffectKind(StrEnum):
    """What a call does to a file; also the name of rules over it, `read(GLOB)` and `write(GLOB)`."""

    READ = "read"
    WRITE = "write"


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
    CHILD_STARTED = "child_started"
    CHILD_ENDED = "child_ended"

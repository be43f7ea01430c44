"""Maps errors to exit codes and HTTP statuses."""

from __future__ import annotations

from typing import NamedTuple

from agent_md.errors import (
    AgentDisabled,
    AgentmdError,
    AnswerConflict,
    BudgetSpent,
    CancelRequested,
    ConversationBusy,
    ConversationWaiting,
    DrivenElsewhere,
    ExecutionEnded,
    FiringDecided,
    HookNotReady,
    HookRefused,
    HookUnsigned,
    LimitReached,
    NeverAsked,
    NothingToRetract,
    NothingToSettle,
    NotRetractable,
    NotShown,
    OpenFilesLimit,
    ServerRunning,
    SessionBusy,
    SessionExists,
    SessionNotInterrupted,
    SettledOtherwise,
    SeveralOpen,
    SeveralSessions,
    StoreBusy,
    TooManySessions,
    UnknownAgent,
    UnknownCall,
    UnknownExecution,
    UnknownGrant,
    UnknownRequest,
    UnknownSession,
    Untrusted,
    UsageError,
    WorkTimeout,
)

__all__ = ["ErrorCodes", "codes_of"]


class ErrorCodes(NamedTuple):
    """How an error leaves the process: the exit code of a command and the status of an HTTP answer."""

    exit: int
    http: int


_CODES: dict[type[AgentmdError], ErrorCodes] = {
    AgentmdError: ErrorCodes(1, 500),
    UsageError: ErrorCodes(2, 422),
    UnknownAgent: ErrorCodes(2, 404),
    AgentDisabled: ErrorCodes(2, 409),
    Untrusted: ErrorCodes(2, 409),
    UnknownExecution: ErrorCodes(2, 404),
    UnknownRequest: ErrorCodes(2, 404),
    UnknownCall: ErrorCodes(2, 404),
    UnknownGrant: ErrorCodes(2, 404),
    NothingToSettle: ErrorCodes(2, 409),
    NothingToRetract: ErrorCodes(2, 409),
    NotRetractable: ErrorCodes(6, 409),
    SettledOtherwise: ErrorCodes(6, 409),
    NeverAsked: ErrorCodes(2, 404),
    NotShown: ErrorCodes(2, 409),
    SeveralOpen: ErrorCodes(2, 409),
    ConversationWaiting: ErrorCodes(2, 409),
    BudgetSpent: ErrorCodes(2, 409),
    ConversationBusy: ErrorCodes(2, 409),
    SessionBusy: ErrorCodes(2, 409),
    UnknownSession: ErrorCodes(2, 404),
    SessionExists: ErrorCodes(2, 409),
    SessionNotInterrupted: ErrorCodes(2, 409),
    SeveralSessions: ErrorCodes(2, 409),
    TooManySessions: ErrorCodes(1, 503),
    StoreBusy: ErrorCodes(1, 503),
    OpenFilesLimit: ErrorCodes(1, 503),
    ServerRunning: ErrorCodes(2, 409),
    AnswerConflict: ErrorCodes(6, 409),
    DrivenElsewhere: ErrorCodes(6, 409),
    ExecutionEnded: ErrorCodes(6, 409),
    FiringDecided: ErrorCodes(6, 409),
    HookUnsigned: ErrorCodes(2, 401),
    HookNotReady: ErrorCodes(1, 503),
    HookRefused: ErrorCodes(2, 409),
    CancelRequested: ErrorCodes(4, 500),
    LimitReached: ErrorCodes(4, 500),
    WorkTimeout: ErrorCodes(5, 500),
}


def codes_of(error: AgentmdError) -> ErrorCodes:
    """The exit code and HTTP status of an error: those of its nearest ancestor in the table."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)

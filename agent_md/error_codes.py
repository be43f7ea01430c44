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
    UsageError,
    WorkTimeout,
)

__all__ = ["Codes", "codes_of"]


class Codes(NamedTuple):
    """How an error leaves the process: the exit code of a command and the status of an HTTP answer."""

    exit: int
    http: int


_CODES: dict[type[AgentmdError], Codes] = {
    AgentmdError: Codes(1, 500),
    UsageError: Codes(2, 422),
    UnknownAgent: Codes(2, 404),
    AgentDisabled: Codes(2, 409),
    UnknownExecution: Codes(2, 404),
    UnknownRequest: Codes(2, 404),
    UnknownCall: Codes(2, 404),
    UnknownGrant: Codes(2, 404),
    NothingToSettle: Codes(2, 409),
    NothingToRetract: Codes(2, 409),
    NotRetractable: Codes(6, 409),
    SettledOtherwise: Codes(6, 409),
    NeverAsked: Codes(2, 404),
    SeveralOpen: Codes(2, 409),
    ConversationWaiting: Codes(2, 409),
    BudgetSpent: Codes(2, 409),
    ConversationBusy: Codes(2, 409),
    SessionBusy: Codes(2, 409),
    UnknownSession: Codes(2, 404),
    SessionExists: Codes(2, 409),
    SessionNotInterrupted: Codes(2, 409),
    SeveralSessions: Codes(2, 409),
    TooManySessions: Codes(1, 503),
    StoreBusy: Codes(1, 503),
    OpenFilesLimit: Codes(1, 503),
    ServerRunning: Codes(2, 409),
    AnswerConflict: Codes(6, 409),
    DrivenElsewhere: Codes(6, 409),
    ExecutionEnded: Codes(6, 409),
    FiringDecided: Codes(6, 409),
    HookUnsigned: Codes(2, 401),
    HookNotReady: Codes(1, 503),
    HookRefused: Codes(2, 409),
    CancelRequested: Codes(4, 500),
    LimitReached: Codes(4, 500),
    WorkTimeout: Codes(5, 500),
}


def codes_of(error: AgentmdError) -> Codes:
    """The exit code and HTTP status of an error: those of its nearest ancestor in the table."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)

"""All errors of agentmd, in one tree with one root.

The message of an error says what happened to what, and what to do next; it is shown to people as it is.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "AddressRefused",
    "AgentDisabled",
    "AgentFileInvalid",
    "AgentmdError",
    "AnswerConflict",
    "AnswerRefused",
    "AnswerRetracted",
    "BudgetSpent",
    "CallClosed",
    "CancelRequested",
    "CannotGoOn",
    "ClaimLost",
    "ConfigInvalid",
    "ConversationBusy",
    "ConversationWaiting",
    "DrivenElsewhere",
    "ExecutionEnded",
    "FiringDecided",
    "GrantLapsed",
    "HookNotReady",
    "HookRefused",
    "HookUnsigned",
    "IdempotencyMismatch",
    "InvalidArguments",
    "LimitReached",
    "MissingKey",
    "ModelFailed",
    "NeverAsked",
    "NoServiceManager",
    "NotRetractable",
    "NotShown",
    "NothingToRetract",
    "NothingToSettle",
    "OpenFilesLimit",
    "OutOfResources",
    "Poisoned",
    "RequestRefused",
    "ServerRunning",
    "ServerUnreachable",
    "SessionBusy",
    "SessionExists",
    "SessionNotInterrupted",
    "SettledOtherwise",
    "SeveralOpen",
    "SeveralSessions",
    "StateDirUnusable",
    "StoreBusy",
    "StoreError",
    "StoreForeign",
    "StoreFull",
    "StoreNewer",
    "StoreReadOnly",
    "TooManySessions",
    "ToolError",
    "TrustUnusable",
    "UnknownAgent",
    "UnknownCall",
    "UnknownExecution",
    "UnknownGrant",
    "UnknownRequest",
    "UnknownSession",
    "Untrusted",
    "UsageError",
    "WorkTimeout",
]


class AgentmdError(Exception):
    """The root. `str(error)` is a sentence for a person."""


class UsageError(AgentmdError):
    """The caller asked for something that cannot be done; nothing was changed."""


class ConfigInvalid(UsageError):
    """config.yaml or the environment has a value that cannot be used."""


class AgentFileInvalid(UsageError):
    """An agent file cannot be used; the message has one line a mistake."""


class UnknownAgent(UsageError):
    """No agent has this name; the message lists the nearest ones."""


class Untrusted(UsageError):
    """The user has not said yes to what the agent or the workspace would do; nothing was run. `items` names it."""

    def __init__(self, message: str, items: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.items = items


class AgentDisabled(UsageError):
    """The agent's file says `enabled: false`."""


class MissingKey(UsageError):
    """A hosted model has no key; the message names the variable to set."""


class UnknownExecution(UsageError):
    """No execution has this id."""


class UnknownRequest(UsageError):
    """No request has this id (or this prefix)."""


class UnknownGrant(UsageError):
    """No grant has this number."""


class UnknownCall(UsageError):
    """The execution has no call at this position."""


class NothingToSettle(UsageError):
    """It is known what became of the call; there is nothing to settle."""


class NeverAsked(UsageError):
    """The execution has never asked a human anything."""


class SeveralOpen(UsageError):
    """Several requests are open and none was named. `open` lists their ids, oldest first."""

    def __init__(self, message: str, open_ids: tuple[str, ...]) -> None:
        super().__init__(message)
        self.open = open_ids


class NotShown(UsageError):
    """An answer named no request, and is for some that came up after the first one and were not shown to who answers.
    `open` lists their ids, oldest first; `shapes` are those that are shown now, as JSON."""

    def __init__(self, message: str, open_ids: tuple[str, ...], shapes: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(message)
        self.open = open_ids
        self.shapes = shapes


class ConversationWaiting(UsageError):
    """`on_pending: skip` refused a new execution. `waiting` lists the ids of those that wait for a human."""

    def __init__(self, message: str, waiting: tuple[int, ...]) -> None:
        super().__init__(message)
        self.waiting = waiting


class BudgetSpent(UsageError):
    """`max_cost_usd_per_day` refused a new execution; nothing was created."""


class ConversationBusy(UsageError):
    """A turn of the session is under way, and it takes one at a time; nothing was created."""


class SessionBusy(UsageError):
    """A session takes no message now. `interrupts` has id and type of each question that is open, oldest first, and
    `waiting` the executions that ask them; both are empty while its turn only runs."""

    def __init__(self, message: str, interrupts: tuple[tuple[str, str], ...], waiting: tuple[int, ...]) -> None:
        super().__init__(message)
        self.interrupts = interrupts
        self.waiting = waiting


class UnknownSession(UsageError):
    """The agent has no session with this id, or it was deleted."""


class SessionExists(UsageError):
    """The agent has a session with this id already."""


class SessionNotInterrupted(UsageError):
    """The session asks nothing now, and never asked what was answered."""


class SeveralSessions(UsageError):
    """Several agents have a session of this id, and no agent was named. `agents` lists them."""

    def __init__(self, message: str, agents: tuple[str, ...]) -> None:
        super().__init__(message)
        self.agents = agents


class RequestRefused(UsageError):
    """A server that this process asked does not take the request; `status` is that of its answer."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class ServerUnreachable(AgentmdError):
    """A server that this process asked gives no answer of use now. `may_be_done`: it may have got the request."""

    def __init__(self, message: str, *, may_be_done: bool) -> None:
        super().__init__(message)
        self.may_be_done = may_be_done


class TooManySessions(AgentmdError):
    """`server.max_sessions` is reached; nothing was created."""


class IdempotencyMismatch(UsageError):
    """The idempotency key was used before, for something else; nothing was created."""


class ServerRunning(UsageError):
    """This workspace has a live server; the message says where."""


class NoServiceManager(UsageError):
    """There is nothing here that manages services of this user; nothing was changed."""


class AnswerRefused(UsageError):
    """The answer does not fit its request; the request stays open and nothing ran."""


class AnswerConflict(AgentmdError):
    """The request was decided otherwise before. `outcome`, `answered_by`, `answered_at` say how, by whom and when;
    `recorded_at`, when that was recorded."""

    def __init__(self, message: str, outcome: str, answered_by: str, answered_at: float, recorded_at: float) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.answered_by = answered_by
        self.answered_at = answered_at
        self.recorded_at = recorded_at


class AnswerRetracted(AnswerConflict):
    """The answer to the request was retracted, by `retracted_by` at `retracted_at`, and the request `replaced_by` asks
    again. `outcome` is `retracted`; `answered_by` and `answered_at` belong to the retracted answer."""

    def __init__(
        self,
        message: str,
        *,
        answered_by: str,
        answered_at: float,
        recorded_at: float,
        retracted_by: str,
        retracted_at: float,
        replaced_by: str,
    ) -> None:
        super().__init__(message, "retracted", answered_by, answered_at, recorded_at)
        self.retracted_by = retracted_by
        self.retracted_at = retracted_at
        self.replaced_by = replaced_by


class NothingToRetract(UsageError):
    """The request is open: there is no answer to retract."""


class NotRetractable(AgentmdError):
    """The answer cannot be retracted: the call acted on it, or no human gave it. Nothing was changed."""


class SettledOtherwise(AgentmdError):
    """The call was settled otherwise before. `ran`, `settled_by`, `settled_at` say how, by whom and when."""

    def __init__(self, message: str, ran: bool, settled_by: str, settled_at: float) -> None:
        super().__init__(message)
        self.ran = ran
        self.settled_by = settled_by
        self.settled_at = settled_at


class DrivenElsewhere(AgentmdError):
    """A live process drives this execution."""


class CannotGoOn(AgentmdError):
    """This process cannot drive the execution any further (no key for its model, say); it stays queued."""


class ExecutionEnded(AgentmdError):
    """The execution has a final status; it is never resumed."""


class FiringDecided(AgentmdError):
    """A firing of a trigger was started or skipped before; nothing was created."""


class HookUnsigned(UsageError):
    """A delivery to the webhook of an agent has no signature that holds; nothing was stored."""


class HookNotReady(AgentmdError):
    """The webhook of an agent can check no signature, because its secret cannot be had; nothing was stored."""


class HookRefused(UsageError):
    """A delivery to the webhook of an agent started nothing; the message says why. It may be sent again."""


class OutOfResources(AgentmdError):
    """This process has no memory, threads or open files left to go on with; what it drove is queued again."""


class TrustUnusable(AgentmdError):
    """The user's record of trusted workspaces cannot be read or written."""


class StateDirUnusable(AgentmdError):
    """The state folder cannot be made, written or trusted."""


class StoreError(AgentmdError):
    """The database cannot be read or written."""


class StoreForeign(StoreError):
    """The file is not a database of agentmd; it was left untouched."""


class StoreNewer(StoreError):
    """The database was written by a newer agentmd; it was left untouched."""


class StoreFull(StoreError):
    """The disk is full; what was not stored is not done."""


class StoreReadOnly(StoreError):
    """The database cannot be written."""


class StoreBusy(StoreReadOnly):
    """Another process holds the database and does not finish; the message names it."""


class OpenFilesLimit(StoreReadOnly):
    """This process has as many files open as it may; nothing was stored."""


class AddressRefused(AgentmdError):
    """A request would go to an address that it must not reach; nothing was sent."""


class ClaimLost(AgentmdError):
    """This process no longer drives the execution; whatever it was about to store was not stored."""


class CallClosed(ClaimLost):
    """The call was ended meanwhile: its tool can start no further step and open no request."""


class GrantLapsed(AgentmdError):
    """The grant that allowed a call was revoked, or the tool changed, before the call started. The call did not start."""


class CancelRequested(AgentmdError):
    """Somebody, `by`, asked to cancel the execution: nothing of it begins any more; ends it as `aborted`."""

    def __init__(self, by: str) -> None:
        super().__init__(f"cancelled by {by}")
        self.by = by


class ModelFailed(AgentmdError):
    """The model could not answer, also after retries; ends the execution as `error`."""


class LimitReached(AgentmdError):
    """A limit of the agent's settings was reached; ends the execution as `aborted`."""


class Poisoned(AgentmdError):
    """Several attempts in a row ended at the same place without any progress; ends the execution as `error`."""


class WorkTimeout(AgentmdError):
    """`settings.timeout` seconds of work were used up; ends the execution as `timeout`."""


class ToolError(AgentmdError):
    """A tool failed; the model is told this text and continues."""


class InvalidArguments(ToolError):
    """The arguments of a call do not fit the tool."""

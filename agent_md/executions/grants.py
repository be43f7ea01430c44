"""Grants: permissions for later calls, given with an answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from agent_md.executions.states import EffectKind

if TYPE_CHECKING:
    from agent_md.executions.execution import Execution
    from agent_md.executions.ids import ExecutionId

__all__ = [
    "DEFAULT_UNTIL",
    "NEVER",
    "Grant",
    "GrantEnd",
    "GrantId",
    "GrantOffer",
    "GrantScope",
    "NewGrant",
    "scopes_of",
]

GrantId = NewType("GrantId", int)

DEFAULT_UNTIL = "8h"
NEVER = "never"
"""Instead of a duration: the grant has no end."""


class GrantScope(StrEnum):
    """Whose calls a grant allows: those of one execution, of one session, or of all executions of one agent."""

    EXECUTION = "execution"
    SESSION = "session"
    AGENT = "agent"


class GrantEnd(StrEnum):
    """Why a grant allows nothing any more. `OVER`: its execution or its session has ended."""

    EXPIRED = "expired"
    REVOKED = "revoked"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class GrantOffer:
    """What can be allowed from now on with the answer to a request: the calls that `rule` fits, and none beyond.

    `tool_digest` is of the tool as it was when the request was opened; `subjects` are those of the call, None = its
    arguments.
    """

    rule: str
    tool_digest: str
    subjects: tuple[str, ...] | None = None
    effect: EffectKind | None = None
    """What the call does to all files that are its subjects, if they are files: a rule over it means the same calls."""


@dataclass(frozen=True, slots=True)
class NewGrant:
    """A grant to record. `lasts` in seconds, None = without end. `tool_module` is that of a custom tool."""

    rule: str
    scope: GrantScope
    lasts: float | None
    tool_digest: str
    tool_module: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """A recorded grant. It holds only for the agent file, with the defaults, and for the tool that it was given for:
    `spec_digest`, `tool_digest`.

    `execution_id` and `session_id` are those of the execution in which it was given. `until` None = without end.
    """

    id: GrantId
    agent: str
    execution_id: ExecutionId
    session_id: str | None
    rule: str
    scope: GrantScope
    spec_digest: str
    tool_digest: str
    tool_module: str | None
    given_by: str
    given_at: float
    until: float | None
    ended: GrantEnd | None = None
    ended_by: str | None = None
    ended_at: float | None = None


def scopes_of(execution: Execution) -> tuple[GrantScope, ...]:
    """The scopes that a grant of this execution can have, the one that is meant if none is named first."""
    if execution.session_id is None or execution.parent_id is not None:
        return (GrantScope.EXECUTION, GrantScope.AGENT)
    return (GrantScope.SESSION, GrantScope.EXECUTION, GrantScope.AGENT)

"""Firings of triggers, as frozen data.

A firing is a row before it is an execution, and there is one for each slot of a schedule, each set of changed files and
each delivery of a webhook: so none is started twice, and what is not started says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import TriggerKind

__all__ = [
    "FileState",
    "Firing",
    "FiringId",
    "FiringState",
    "NewFiring",
    "Pause",
    "ToolRun",
    "TriggerRecord",
    "TriggerState",
    "Written",
    "slot_key",
]

FiringId = NewType("FiringId", int)


class FiringState(StrEnum):
    """What became of a firing; only `due` ever changes."""

    DUE = "due"
    STARTED = "started"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiring:
    """A firing to add. An agent has one with this `trigger` and `key`, whoever adds it and however often."""

    agent: str
    trigger: TriggerKind
    key: str
    due_at: float
    message: str | None = None
    """The message for the agent; None: a run without a message. That of a webhook is kept until the firing is decided.
    """
    reason: str | None = None
    """Why it is skipped at once; None: it is due."""
    hop: int = 0
    """Of a set of changed files: how many executions, each started by what the one before wrote, led to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing(NewFiring):
    """A stored firing."""

    id: FiringId
    state: FiringState
    execution_id: ExecutionId | None = None
    decided_at: float | None = None


@dataclass(frozen=True, slots=True)
class TriggerRecord:
    """The stored state of an agent's trigger. `anchor` is when it was first seen in its current form; everything up to
    `looked_at` has its firings."""

    anchor: float
    looked_at: float


@dataclass(frozen=True, slots=True)
class FileState:
    """A watched file as it was when its last change became a firing. `stamp` changes whenever the file is touched, empty =
    it is to be read again; `digest` changes with the content."""

    stamp: str
    digest: str


@dataclass(frozen=True, slots=True)
class Written:
    """A file state that an execution brought about: the absolute path, its state as tools note it (`absent` = deleted).
    `agents` are the names, as they are compared, of the execution and of those above it; `hop` is that of the change
    set that started one of them, None if none was started by a watch."""

    path: str
    state: str
    agents: frozenset[str]
    hop: int | None


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call that does not say what it writes, from when it was proposed to when it ended (None = not yet). `hop` is that of
    the change set that started its execution or one above it."""

    tool: str
    hop: int
    begun_at: float
    ended_at: float | None


@dataclass(frozen=True, slots=True)
class Pause:
    """Triggers that are paused: those of one agent, or of all (None)."""

    agent: str | None
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class TriggerState:
    """An agent's trigger as it is now. `next_fire` in seconds since 1970, None if it is not known or nothing fires.

    `waiting` are executions that wait for a human and so keep the trigger from starting another one
    (`on_pending: skip`). `skipped` is the firing that was decided last, if it was skipped.
    """

    next_fire: float | None = None
    pause: Pause | None = None
    waiting: tuple[ExecutionId, ...] = ()
    skipped: Firing | None = None


def slot_key(at: float) -> str:
    """The key of the slot of a schedule: its instant, to the millisecond."""
    return f"{at:.3f}"

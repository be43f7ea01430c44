"""Firings of schedules, watches and webhooks, each stored before its execution."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from agent_md.executions.firings import (
    FileState,
    Firing,
    FiringId,
    FiringState,
    NewFiring,
    Pause,
    ToolRun,
    TriggerRecord,
    Written,
)
from agent_md.executions.states import TriggerKind

__all__ = ["Firings"]


class Firings(Protocol):
    """Triggers and their firings. Names of agents are compared as everywhere."""

    def follow(self, agent: str, trigger: TriggerKind, digest: str) -> TriggerRecord:
        """The stored state of the agent's trigger of this kind; created now if it is new or its `digest` changed."""

    def followed(self, agent: str, trigger: TriggerKind, digest: str) -> TriggerRecord | None:
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
        """Starts the agent's watch now, or restarts it, with these existing files."""

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

"""Queries of the store for events."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import EventType

__all__ = ["EventQueries"]


class EventQueries(Protocol):
    """The stored events of all executions."""

    def all_events(self, types: Collection[EventType], *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events of these types of all executions with `seq` above `after`, in order."""

    def has_event(self, seq: int, execution_id: ExecutionId | None = None) -> bool:
        """Whether there is an event with this number, in this execution if one is given."""

    def last_event(self) -> int:
        """The number of the newest event of all, 0 if there is none."""

    def touched(self, after: int) -> tuple[int, frozenset[ExecutionId]]:
        """The number of the newest event of all, and the executions that have events above `after`."""

    def events(self, execution_id: ExecutionId, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events of one execution with `seq` above `after`, in order."""

    def version(self) -> int:
        """A number that changes with every commit of any other process or connection. Costs microseconds."""

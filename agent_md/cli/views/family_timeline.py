"""Everything that happened in an execution and in those it has called, in one order; who did it stands in each line."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from agent_md.cli.views.timeline import Days, Timeline
from agent_md.executions.execution import Event, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import EventType

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["FamilyTimeline"]

_TOLD_OF_CHILDREN = (EventType.INTERRUPT, EventType.RESUMED, EventType.RETRACTED)
_OF_CALLS = (EventType.CHILD_STARTED, EventType.CHILD_ENDED)


class FamilyTimeline:
    """The lines of one execution as `Timeline` has them, with those of what it has called in between: `coordinator > helper`
    stands before what the helper did."""

    def __init__(self) -> None:
        self._days = Days()
        self._timelines: dict[ExecutionId, Timeline] = {}

    def lines(
        self, family: Sequence[Execution], events: Sequence[Event], requests: Sequence[Request]
    ) -> list[RenderableType]:
        """The lines of the events that came since, in order. `family` is the execution, first, and all below it."""
        self._know(family)
        lines: list[RenderableType] = []
        own = [event for event in events if not _is_told_twice(event)]
        for execution_id, some in groupby(own, key=lambda event: event.execution_id):
            lines += self._timelines[execution_id].lines(list(some), requests)
        return lines

    def standing(
        self, family: Sequence[Execution], requests: Sequence[Request], *, now: float, died: Collection[ExecutionId]
    ) -> list[RenderableType]:
        """The last lines, those of the execution at the end: how each ended or stands."""
        lines: list[RenderableType] = []
        for execution in [*family[1:], family[0]]:
            asked = [request for request in requests if request.execution_id == execution.id]
            timeline = self._timelines[execution.id]
            lines += timeline.standing(execution, asked, now=now, died=execution.id in died)
        return lines

    def timeline(self, execution_id: ExecutionId) -> Timeline:
        """That of one of the family."""
        return self._timelines[execution_id]

    def _know(self, family: Sequence[Execution]) -> None:
        names: dict[ExecutionId | None, str] = {}
        for execution in family:
            above = names.get(execution.parent_id)
            names[execution.id] = execution.agent if above is None else f"{above} > {execution.agent}"
            if execution.id not in self._timelines:
                self._timelines[execution.id] = Timeline(
                    names[execution.id], session=execution.session_id, days=self._days
                )


def _is_told_twice(event: Event) -> bool:
    """Whether it is the copy for a root of what an execution below it has in its own events."""
    if event.type in _OF_CALLS:
        return bool(event.data["parent_execution_id"] != event.execution_id)
    return event.type in _TOLD_OF_CHILDREN and "child_execution_id" in event.data

"""Passes events of a driven execution to the caller's `on_event`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent_md.app import App
from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId

__all__ = ["EventSink", "OnEvent", "TextDelta"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the text of AI message `turn` of an execution, as it comes. None: the pieces so far are void, since the
    model is asked again. The `ai` event that follows has the whole message."""

    execution_id: int
    turn: int
    text: str | None


OnEvent = Callable[[Event | TextDelta], object]
"""Called with each stored event of an execution, in order, and with pieces of text as they come."""


class EventSink:
    """`agent_md.ports.ProgressSink` that passes on what comes after the event `after`. An exception of the receiver ends
    the drive, and not the execution."""

    def __init__(self, app: App, execution_id: ExecutionId, on_event: OnEvent | None, *, after: int = 0) -> None:
        self._store = app.store
        self._id = execution_id
        self._receive = on_event
        self._after = after
        self._failure: Exception | None = None
        self.on_failure: Callable[[], object] = lambda: None

    def stored(self) -> None:
        for event in self._store.events(self._id, after=self._after) if self._receive else ():
            self._after = event.seq
            self._pass_on(event)

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        self._pass_on(TextDelta(execution_id, turn, text))

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        self._pass_on(TextDelta(execution_id, turn, None))

    def check(self) -> None:
        """Raises what the receiver raised."""
        if self._failure is not None:
            raise self._failure

    def _pass_on(self, event: Event | TextDelta) -> None:
        if self._receive is None or self._failure is not None:
            return
        try:
            self._receive(event)
        except Exception as error:
            self._failure = error
            self.on_failure()

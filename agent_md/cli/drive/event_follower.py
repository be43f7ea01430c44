"""Shows the stored events of one execution, each once and in order, whoever drives it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from agent_md.app import App
from agent_md.cli.drive.run_output import Output
from agent_md.cli.terminal.output import NoReader, give_up, note
from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Request
from agent_md.executions.states import Decision, EventType
from agent_md.process.standard_streams import person

__all__ = ["EventFollower"]

_STANDING = (EventType.WAITING, EventType.FINAL_ANSWER, EventType.COMPLETE)
"""Events that say how an execution stands, as long as none of another type comes after them."""


class EventFollower:
    """One execution on one output. A reader that goes away is no reason to stop: the rest goes nowhere."""

    def __init__(self, app: App, execution_id: ExecutionId, output: Output, *, new: str | None = None) -> None:
        """`new` is the model of an execution that was made just now: it is shown from its start."""
        self._app = app
        self._store = app.store
        self._new = new
        self._shown = 0
        self._answered: tuple[Sequence[RequestId], bool] = ((), False)
        self.execution_id = execution_id
        self.output = output

    def answered(self, requests: Sequence[RequestId], *, again: bool) -> None:
        """What this command was given an answer to, to be named first; `again`: it was recorded before."""
        self._answered = requests, again

    def questions(self, requests: Sequence[Request]) -> None:
        """Shows what is asked, whole."""
        drift = self._app.drift_of(requests)
        for request in requests:
            self._guarded(partial(self.output.question, request, drift=drift[request.id]))

    def begin(self) -> Sequence[Event]:
        """Begins with the start of a new execution, else with what was answered, how it stands (its wait, its end) and
        what comes now.

        Gives the events that will not be shown, because they were there before."""
        execution = self._store.execution(self.execution_id)
        if self._new is not None:
            self._guarded(partial(self.output.begin, execution, self._new))
            return ()
        events = self._store.events(self.execution_id)
        self._guarded(partial(self.output.go_on, execution, events[0]))
        requests, again = self._answered
        answered = [self._store.request(request) for request in requests]
        drift = self._app.drift_of(answered)
        for request in answered:
            self._guarded(partial(self.output.answered, request, drift=drift[request.id], again=again))
        while events and events[-1].type in _STANDING:
            events.pop()
        self._shown = events[-1].seq if events else 0
        return events

    def update(self) -> Sequence[Event]:
        """Shows what is new, and gives it."""
        events = self._store.events(self.execution_id, after=self._shown)
        for event in events:
            self._shown = event.seq
            self._guarded(partial(self._show, event))
        return events

    def end(self) -> None:
        """What there is to say once the execution has ended; nothing if it has not."""
        execution = self._store.execution(self.execution_id)
        if execution.status.final:
            self._guarded(partial(self.output.ended, execution))

    def _show(self, event: Event) -> None:
        execution = self._store.execution(self.execution_id)
        asked: list[Request] = []
        if event.type is EventType.WAITING:
            asked = [request for request in self._store.requests(self.execution_id, family=True) if request.open]
        elif event.type is EventType.INTERRUPT:
            asked = [self._store.request(RequestId(event.data["request_id"]))]
        elif event.type is EventType.TOOL_CALL and event.data["decision"] == Decision.ASK:
            of_call = [r for r in self._store.requests(self.execution_id) if str(r.position) == event.data["position"]]
            asked = of_call[:1]
        drift = self._app.drift_of(asked)
        self.output.event(event, execution, [(request, drift[request.id]) for request in asked])

    def _guarded(self, show: Callable[[], None]) -> None:
        try:
            with suppress(NoReader):
                show()
        except OSError as error:
            self.output.live.withdraw()
            give_up(person(sys.stdout))
            note(f"standard output cannot be written ({error.strerror}); execution {self.execution_id} goes on")

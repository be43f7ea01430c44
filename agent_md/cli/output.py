"""What `run`, `respond` and `resume` print: lines for people, only the answer, or one JSON event a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_md.cli.render import RunView, header
from agent_md.cli.screen import Screen
from agent_md.cli.text import one_line
from agent_md.executions.model import Event, EventType, Execution, Request
from agent_md.shapes import request_shape, run_event_line

__all__ = ["JsonOutput", "Output", "QuietOutput", "TextOutput", "note", "say"]


def say(text: str) -> None:
    """One line or more to standard output, at once."""
    print(text, flush=True)


def note(text: str) -> None:
    """A line for the person, to standard error; standard output is for results."""
    print(one_line(text), file=sys.stderr, flush=True)


class Output(Protocol):
    """Shows one execution as it goes on."""

    def begin(self, execution: Execution, model: str) -> None:
        """Before the first event."""

    def event(self, event: Event, execution: Execution, open_requests: Sequence[tuple[Request, bool]]) -> None:
        """A stored event, in order; `open_requests` with whether each has drifted, for `waiting` events."""

    def decided_elsewhere(self, request: Request) -> None:
        """A request was decided while this terminal asked it."""

    def handed_over(self, execution: Execution, to: str) -> None:
        """Another process goes on with the execution."""


@dataclass
class TextOutput:
    """The shape of a run for people."""

    screen: Screen
    view: RunView | None = None
    _after_prompt: bool = field(default=False, init=False)

    def begin(self, execution: Execution, model: str) -> None:
        self.view = RunView(one_line(execution.agent), self.screen)
        for line in header(execution.agent, model, self.screen):
            say(line)

    def prompted(self) -> None:
        """A question was answered here: the next line stands apart from it."""
        self._after_prompt = True

    def event(self, event: Event, execution: Execution, open_requests: Sequence[tuple[Request, bool]]) -> None:
        if self.view is None:
            self.view = RunView(one_line(execution.agent), self.screen)
        for line in self.view.lines(event, after_prompt=self._after_prompt):
            self._after_prompt = False
            say(line)

    def decided_elsewhere(self, request: Request) -> None:
        for line in (self.view or RunView(one_line(request.agent), self.screen)).decided(request):
            say(line)

    def handed_over(self, execution: Execution, to: str) -> None:
        say(f"Recorded. Execution {execution.id} is driven by {to}, which goes on with it.")


@dataclass
class QuietOutput:
    """Only the final answer."""

    def begin(self, execution: Execution, model: str) -> None: ...

    def prompted(self) -> None: ...

    def event(self, event: Event, execution: Execution, open_requests: Sequence[tuple[Request, bool]]) -> None:
        from agent_md.cli.text import visible

        if event.type is EventType.FINAL_ANSWER:
            say(visible(event.message))
        elif event.type is EventType.COMPLETE and event.data.get("error"):
            note(f"{execution.agent}: {event.data['status']}: {event.data['error']}")

    def decided_elsewhere(self, request: Request) -> None: ...

    def handed_over(self, execution: Execution, to: str) -> None: ...


@dataclass
class JsonOutput:
    """One event a line."""

    def begin(self, execution: Execution, model: str) -> None: ...

    def prompted(self) -> None: ...

    def event(self, event: Event, execution: Execution, open_requests: Sequence[tuple[Request, bool]]) -> None:
        shapes = [request_shape(request, drifted=drifted) for request, drifted in open_requests]
        self._line(run_event_line(event, execution, shapes))

    def decided_elsewhere(self, request: Request) -> None: ...

    def handed_over(self, execution: Execution, to: str) -> None:
        self._line({"event": "handed_over", "execution_id": execution.id, "status": str(execution.status), "to": to})

    def _line(self, data: dict[str, Any]) -> None:
        say(json.dumps(data))

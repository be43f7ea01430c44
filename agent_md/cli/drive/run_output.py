"""The output of `run`, `respond`, `resume` and `chat`: lines for people, only the answer, or one JSON event per line."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agent_md.cli.terminal.live_rows import NOWHERE, LiveArea
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.event_lines import RunView, cut_text, header
from agent_md.cli.views.money import dollars
from agent_md.cli.views.questions import contents, question_texts
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen
from agent_md.executions.execution import Event, Execution
from agent_md.executions.requests import Request
from agent_md.executions.states import Drift, EventType, RequestKind
from agent_md.process.standard_streams import person
from agent_md.serialization import request_json, run_event_line
from agent_md.visible_text import counted, json_line, one_line, visible
from agent_md.wording.call_text import long_texts
from agent_md.wording.request_text import decision_text, summary

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["JsonOutput", "Output", "QuietOutput", "TextOutput", "choose_output"]


class Output:
    """Shows one execution as it goes on. This one shows nothing."""

    live: LiveArea = NOWHERE
    """Where progress may be shown below what is printed. Whoever prints past this object withdraws it first."""

    shows_questions = True
    """Whether who reads it knows what is asked."""

    def note(self, text: str) -> None:
        """A line for the person, to standard error."""
        self.live.withdraw()
        note(text)

    def begin(self, execution: Execution, model: str) -> None:
        """A new execution, before its first event."""

    def go_on(self, execution: Execution, started: Event) -> None:
        """An execution that began before, with its first event, before the first event that is shown of it."""

    def event(self, event: Event, execution: Execution, requests: Sequence[tuple[Request, Sequence[Drift]]]) -> None:
        """A stored event, in order; of a `waiting` one the open requests, of an `interrupt` its own, of a guarded call that
        of the gate, with what has drifted."""

    def prompted(self) -> None:
        """A question was answered at this terminal."""

    def left_open(self, request: Request) -> None:
        """A guarded call waits for an answer, and nobody is asked here."""

    def question(self, request: Request, *, drift: Sequence[Drift]) -> None:
        """A question that is shown whole, and not asked here."""

    def decided(self, request: Request, *, shown: bool) -> None:
        """A question was decided by this command without asking anybody; `shown`: what it asks stands above."""

    def answered(self, request: Request, *, drift: Sequence[Drift], again: bool) -> None:
        """The command was given this answer (`again`: which was recorded before), and goes on from here."""

    def ended(self, execution: Execution) -> None:
        """The execution has ended, and this command with it."""

    def recorded(self, execution: Execution, *, again: bool) -> None:
        """An answer is stored (`again`: it was before), and this command leaves the rest to others."""

    def handed_over(self, execution: Execution, to: str, *, answered: bool) -> None:
        """Another process goes on with the execution, which is new or was `answered` here."""


class TextOutput(Output):
    """The shape of a run for people."""

    def __init__(self, agent: str, live: LiveArea = NOWHERE) -> None:
        self.live = live
        self._view = RunView(agent)
        self._after_prompt = False

    def begin(self, execution: Execution, model: str) -> None:
        for line in header(execution.agent, model):
            self._say(line)

    def event(self, event: Event, execution: Execution, requests: Sequence[tuple[Request, Sequence[Drift]]]) -> None:
        asked = [request for request, _ in requests]
        for line in self._view.lines(event, asked, after_prompt=self._after_prompt):
            self._after_prompt = False
            self._say(line)

    def prompted(self) -> None:
        self._after_prompt = True

    def left_open(self, request: Request) -> None:
        for line in contents(request) if long_texts(request.tool_args or {}) else ():
            self._say(line)

    def question(self, request: Request, *, drift: Sequence[Drift]) -> None:
        self.live.withdraw()
        for line in _question_lines(request, drift):
            say(line)

    def decided(self, request: Request, *, shown: bool) -> None:
        for line in self._view.decided(request, shown=shown):
            self._say(line)

    def answered(self, request: Request, *, drift: Sequence[Drift], again: bool) -> None:
        self.decided(request, shown=False)
        if again:
            note("this answer was recorded before")

    def ended(self, execution: Execution) -> None:
        usage = execution.usage
        if usage.total_tokens:
            note(f"{usage.total_tokens:,} tokens, {dollars(usage.cost_usd)}")
        _note_unknown(execution)

    def recorded(self, execution: Execution, *, again: bool) -> None:
        if not again:
            self._say("Recorded.")

    def handed_over(self, execution: Execution, to: str, *, answered: bool) -> None:
        started = f"Execution {execution.id} started; {to} drives it."
        recorded = f"Recorded. Execution {execution.id} is driven by {to}, which goes on with it."
        self._say(f"{recorded if answered else started} `agentmd logs -f -e {execution.id}` follows it")

    def _say(self, line: RenderableType) -> None:
        self.live.withdraw()
        say(line)


class QuietOutput(Output):
    """Only the final answer; what was answered, and why there is no final answer, goes to standard error."""

    shows_questions = False

    def question(self, request: Request, *, drift: Sequence[Drift]) -> None:
        for line in _question_lines(request, drift):
            for row in [line] if isinstance(line, str) else rendered(Screen.of(person(sys.stderr)), line):
                note(row)

    def event(self, event: Event, execution: Execution, requests: Sequence[tuple[Request, Sequence[Drift]]]) -> None:
        if event.type is EventType.FINAL_ANSWER:
            say(visible(event.message, prose=True))
        elif event.type is EventType.COMPLETE and event.data.get("error"):
            note(f"{execution.agent}: {event.data['status']}: {event.data['error']}")
        elif event.type is EventType.COMPLETE and event.data.get("cut"):
            note(f"{execution.agent}: {cut_text(event.data['cut'])}")

    def answered(self, request: Request, *, drift: Sequence[Drift], again: bool) -> None:
        note(f"{summary(request)}: {decision_text(request)}")

    def ended(self, execution: Execution) -> None:
        _note_unknown(execution)


def _question_lines(request: Request, drift: Sequence[Drift]) -> Iterator[RenderableType]:
    """Everything that is asked, as a prompt shows it."""
    screen = Screen.of(person(sys.stdout))
    for text in question_texts(request, screen, drift=drift, now=time.time()):
        yield from (*text.above, *text.lines)
        if request.kind is RequestKind.CONFIRM:
            yield one_line(text.prompt)


def _note_unknown(execution: Execution) -> None:
    if execution.unknown_calls:
        calls = counted(execution.unknown_calls, "call")
        note(f"{calls} of execution {execution.id} may have run: agentmd logs -e {execution.id}")


class JsonOutput(Output):
    """One event a line."""

    def go_on(self, execution: Execution, started: Event) -> None:
        self.event(started, execution, ())

    def event(self, event: Event, execution: Execution, requests: Sequence[tuple[Request, Sequence[Drift]]]) -> None:
        shapes = [request_json(request, drift=drift) for request, drift in requests]
        self._line(run_event_line(event, execution, shapes))

    def question(self, request: Request, *, drift: Sequence[Drift]) -> None:
        shape = request_json(request, drift=drift)
        self._line({"event": "question", "execution_id": request.execution_id, "request": shape})

    def answered(self, request: Request, *, drift: Sequence[Drift], again: bool) -> None:
        shape = request_json(request, drift=drift)
        self._line({"event": "answered", "execution_id": request.execution_id, "again": again, "request": shape})

    def recorded(self, execution: Execution, *, again: bool) -> None:
        self._line({"event": "recorded", "execution_id": execution.id, "status": str(execution.status), "again": again})

    def handed_over(self, execution: Execution, to: str, *, answered: bool) -> None:
        self._line({"event": "handed_over", "execution_id": execution.id, "status": str(execution.status), "to": to})

    def _line(self, data: dict[str, Any]) -> None:
        say(json_line(data))


def choose_output(execution: Execution, *, quiet: bool, as_json: bool) -> Output:
    if as_json:
        return JsonOutput()
    if quiet:
        return QuietOutput()
    return TextOutput(execution.agent, LiveArea.of())

"""The timeline of one execution: all its events in full."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from rich.text import Text

from agent_md.cli.views.durations import spent
from agent_md.cli.views.event_lines import (
    EventLine,
    Said,
    called,
    decided,
    ended,
    final,
    has_calls,
    of_child,
    result,
    retracted,
)
from agent_md.cli.views.hanging_indent import paragraph
from agent_md.cli.views.listed_request import listed
from agent_md.cli.views.money import dollars
from agent_md.cli.views.times import date, date_time
from agent_md.executions.calls import Call
from agent_md.executions.execution import Event, Execution
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request
from agent_md.executions.states import CallState, EventType, Outcome, Status
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Days", "Timeline"]

_MESSAGES = {EventType.HUMAN: "👤", EventType.AI: "💬", EventType.WAITING: "⏳"}


class Days:
    """The day that was told last, to all who share it."""

    def __init__(self) -> None:
        self._told = ""

    def changed(self, day: str) -> bool:
        before, self._told = self._told, day
        return day != before


class Timeline:
    """The lines of one execution in the shape of a run, as its events come.

    Besides there are: the day where it changes, how long was waited for each answer and each result, and at the end
    what all of it took.
    """

    def __init__(
        self,
        agent: str,
        *,
        session: str | None = None,
        brief: bool = False,
        zone: tzinfo | None = None,
        days: Days | None = None,
    ) -> None:
        """`session` is the id of the one that the execution is a turn of. With `brief` long texts in the arguments of
        calls are named by their size, else they are whole."""
        self._brief = brief
        self._agent = agent
        self._session = session
        self._zone = zone
        self._days = days or Days()
        self._answer: Event | None = None
        self._calls: dict[str, float] = {}

    def lines(self, events: Sequence[Event], requests: Sequence[Request]) -> list[RenderableType]:
        """The lines of the events that came since; `requests` are all of the execution."""
        known = {request.id: request for request in requests}
        lines: list[RenderableType] = []
        for event in events:
            lines += self._held_back(event)
            if event.type is EventType.AI and not has_calls(event):
                self._answer = event  # shown as the final answer, if it becomes that
                continue
            if event.type is EventType.COMPLETE:
                lines += self._cancelled([r for r in requests if r.execution_id == event.execution_id])
            for said in self._said(event, known):
                lines += self._at(event.at, said)
        return lines

    def standing(
        self, execution: Execution, requests: Sequence[Request], *, now: float, died: bool = False
    ) -> list[RenderableType]:
        """The last lines: the status or the end, the totals, and how to continue. `died` = its process died."""
        lines = [] if self._answer is None else self._at(self._answer.at, ("💬", self._answer.message, ""))
        self._answer = None
        said = ("■", f"{_state(execution, died)} after {_spending(execution, requests, now)}", "dim")
        lines += self._at(execution.finished_at or now, said)
        if (advice := _advice(execution, died)) is not None:
            lines.append(paragraph(f"  {advice}"))
        return lines

    def unknown(self, execution: Execution, calls: Sequence[Call]) -> list[RenderableType]:
        """What became of each call that may have run, or how to say so."""
        unknown = [call for call in calls if call.state is CallState.UNKNOWN]
        return [paragraph(f"  {_settled(execution, call, self._zone)}") for call in unknown]

    def _held_back(self, event: Event) -> list[RenderableType]:
        held, self._answer = self._answer, None
        if held is None or (event.type is EventType.FINAL_ANSWER and event.message == held.message):
            return []
        return self._at(held.at, ("💬", held.message, "")) if held.message.strip() else []

    def _at(self, at: float, said: Said) -> list[RenderableType]:
        day = date(at, self._zone)
        before = [Text(f"── {day} ──", "dim")] if self._days.changed(day) else []
        return [*before, EventLine(at, self._agent, said, self._zone)]

    def _said(self, event: Event, requests: Mapping[RequestId, Request]) -> Iterator[Said]:
        match event.type:
            case EventType.SYSTEM:
                yield "▶", _started(event, self._session), ""
            case EventType.INTERRUPT | EventType.RESUMED:
                yield self._about_request(event, requests.get(event.data["request_id"]))
            case EventType.RETRACTED | EventType.CHILD_STARTED | EventType.CHILD_ENDED:
                yield retracted(event) if event.type is EventType.RETRACTED else of_child(event)
            case EventType.COMPLETE:
                if (ending := ended(event)) is not None:
                    yield ending
            case EventType.TOOL_CALL:
                self._calls[event.data["position"]] = event.at
                yield called(event, brief=self._brief)
            case EventType.TOOL_RESULT:
                since = self._calls.get(event.data["position"], event.at)
                yield result(event, event.message, after=_after(event.at - since))
            case EventType.FINAL_ANSWER:
                yield final(event)
            case _ if event.message.strip():
                yield _MESSAGES[event.type], event.message, ""

    def _about_request(self, event: Event, request: Request | None) -> Said:
        asks = event.type is EventType.INTERRUPT
        if request is None:
            return "❓" if asks else "👉", event.message, ""
        if request.execution_id == event.execution_id:
            self._calls[str(request.position)] = event.at  # what comes after an answer is no more waiting for it
        if asks:
            return "❓", _asked(request, self._zone), "attention"
        return self._decided(request)

    def _cancelled(self, requests: Sequence[Request]) -> list[RenderableType]:
        """An end cancels what is open and stores no event for it; the timeline shows it all the same."""
        lines: list[RenderableType] = []
        for request in requests:
            if request.answer is not None and request.answer.outcome is Outcome.CANCELLED:
                lines += self._at(request.answer.answered_at, self._decided(request))
        return lines

    def _decided(self, request: Request) -> Said:
        return decided(request, shown=True, after=_waited(request))


def _started(event: Event, session: str | None) -> str:
    model, trigger = event.data["model"], event.data["trigger"]
    turn = "" if session is None else f", session {one_line(session)}"
    return f"Started execution {event.execution_id} ({trigger}, {model['provider']}/{model['name']}{turn})"


def _asked(request: Request, zone: tzinfo | None) -> str:
    options = f" [{one_line(' | '.join(request.options))}]" if request.options else ""
    until = "" if request.expires_at is None else f" (until {date_time(request.expires_at, zone)})"
    return f"{listed(request, whole=True)}{options}{until}"


def _waited(request: Request) -> str:
    return "" if request.given is None else _after(request.given.answered_at - request.created_at)


def _after(seconds: float) -> str:
    return f" (after {spent(seconds)})" if seconds >= 1 else ""


def _state(execution: Execution, died: bool) -> str:
    if died:
        return f"{execution.status}, its process died,"
    return str(execution.status) if execution.cut is None else f"{execution.status}, with a text that is cut,"


def _advice(execution: Execution, died: bool) -> str | None:
    if died:
        return f"agentmd resume {execution.id} goes on"
    if execution.status is Status.QUEUED:
        return f"agentmd resume {execution.id} goes on, or says why it cannot"
    return f"agentmd respond {execution.id} answers it" if execution.status is Status.WAITING else None


def _settled(execution: Execution, call: Call, zone: tzinfo | None) -> str:
    named = f"call {call.position} ({one_line(call.tool)})"
    settled = call.settlement
    if settled is None:
        return f"⚠ {named} may have run: agentmd settle {execution.id} {call.position} --ran, or --not-run"
    note = f": {one_line(settled.note)}" if settled.note else ""
    how = "ran" if settled.ran else "did not run"
    return f"{named} {how}, says {one_line(settled.settled_by)} at {date_time(settled.settled_at, zone)}{note}"


def _spending(execution: Execution, requests: Sequence[Request], now: float) -> str:
    usage = execution.usage
    cost = dollars(usage.cost_usd)
    tokens = f"{usage.total_tokens:,} tokens ({usage.input_tokens:,} in, {usage.output_tokens:,} out)"
    waited = _seconds_waited(requests, now)
    humans = f" and {spent(waited)} of waiting for answers" if waited >= 1 else ""
    return f"{execution.work_ms / 1000:.1f} s of work{humans}, {tokens}, {cost}"


def _seconds_waited(requests: Sequence[Request], now: float) -> float:
    """The time in which at least one request was open."""
    total = reached = 0.0
    for request in sorted(requests, key=lambda request: request.created_at):
        end = now if request.given is None else request.given.answered_at
        start = max(request.created_at, reached)
        total += max(0.0, end - start)
        reached = max(reached, end)
    return total

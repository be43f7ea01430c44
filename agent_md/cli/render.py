"""The lines of a run and of a whole timeline: pure functions from stored events, in the seed's shape.

`17:03:12 cleaner 🔧 file_delete → {"path": "output/old-report.txt"}`: local time, agent, a sign, what happened. Further
lines of a text are indented, so that no text can pass for a line of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_md.cli.questions import decision_text, indented, listed, shown_json, summary
from agent_md.cli.screen import PLAIN, Screen, Style
from agent_md.cli.text import cut, one_line, visible
from agent_md.executions.model import CallOutcome, Event, EventType, Outcome, Request, RequestId, Status

__all__ = ["RunView", "header", "timeline"]

_RESULT_CELLS = 400
"""A result longer than this is cut in the view of a run, and says so; the timeline has it whole."""

_ENDINGS = {
    Status.ERROR: ("❌", ""),
    Status.TIMEOUT: ("⏱", "timeout"),
    Status.ABORTED: ("🛑", "aborted"),
}
_MESSAGES = {EventType.SYSTEM: "▶", EventType.HUMAN: "👤", EventType.AI: "💬", EventType.WAITING: "⏳"}

Said = tuple[str, str, tuple[Style, ...]]
"""A sign, its text, and how it looks. The text may be of others and hold anything: `_said` makes it visible."""


def header(agent: str, model: str, screen: Screen = PLAIN) -> list[str]:
    """What a run begins with: `▶ Running cleaner  google/gemini-2.5-flash` and a blank line."""
    return [
        f"{screen.painter('▶ Running', Style.BOLD)} {one_line(agent)}  {screen.painter(one_line(model), Style.DIM)}",
        "",
    ]


@dataclass(frozen=True, slots=True)
class RunView:
    """The lines of one running execution.

    Shown are: text that comes with calls, calls, results, and the end. `human`, `interrupt`, `waiting` and the
    answers given at this terminal are not: the one who watches typed them or is asked by a prompt.
    """

    agent: str
    screen: Screen = PLAIN

    def lines(self, event: Event, *, after_prompt: bool = False) -> list[str]:
        """What to print for an event, perhaps nothing; a blank line first if a prompt was answered just before."""
        said = _in_run(event)
        if said is None:
            return []
        lines = _said(self.screen.time(event.at), self.agent, said, self.screen)
        return ["", *lines] if after_prompt else lines

    def decided(self, request: Request) -> list[str]:
        """The line for a request that was decided, wherever that was: what it asked, how, and by whom."""
        if request.answer is None:
            return []
        said = _decision(request)
        return _said(self.screen.time(request.answer.answered_at), self.agent, said, self.screen)


def timeline(agent: str, events: Sequence[Event], requests: Sequence[Request], screen: Screen = PLAIN) -> list[str]:
    """Everything that happened in an execution: messages, calls, questions, who answered what and when; all whole."""
    known = {request.id: request for request in requests}
    output = next((event.message for event in events if event.type is EventType.FINAL_ANSWER), None)
    lines: list[str] = []
    for event in events:
        if event.type is EventType.AI and not _has_calls(event.data) and event.message == output:
            continue  # the final answer shows it
        if event.type is EventType.COMPLETE:
            lines += _cancelled(agent, requests, screen)
        for said in _in_timeline(event, known):
            lines += _said(screen.date_time(event.at), agent, said, screen)
    return lines


def _said(at: str, agent: str, said: Said, screen: Screen) -> list[str]:
    sign, text, styles = said
    first, *rest = visible(text).split("\n")
    line = f"{screen.painter(at, Style.DIM)} {one_line(agent)} {sign} {screen.painter(first, *styles)}"
    return [line.rstrip(), *indented("\n".join(rest))] if rest else [line.rstrip()]


def _in_run(event: Event) -> Said | None:
    match event.type:
        case EventType.AI:
            return ("💬", event.message, ()) if event.message.strip() and _has_calls(event.data) else None
        case EventType.TOOL_CALL:
            return _call(event)
        case EventType.TOOL_RESULT:
            return _result(event, _shortened(event.message))
        case EventType.FINAL_ANSWER:
            return _final(event)
        case EventType.COMPLETE:
            return _ending(event)
        case _:
            return None


def _in_timeline(event: Event, requests: Mapping[RequestId, Request]) -> Iterator[Said]:
    match event.type:
        case EventType.INTERRUPT | EventType.RESUMED:
            yield _about_request(event, requests.get(event.data["request_id"]))
        case EventType.COMPLETE:
            if (ending := _ending(event)) is not None:
                yield ending
            yield "■", _totals(event), (Style.DIM,)
        case EventType.TOOL_CALL:
            yield _call(event)
        case EventType.TOOL_RESULT:
            yield _result(event, event.message)
        case EventType.FINAL_ANSWER:
            yield _final(event)
        case _ if event.message.strip():
            sign, text = _MESSAGES[event.type], event.message
            yield sign, _started(event) if event.type is EventType.SYSTEM else text, ()


def _about_request(event: Event, request: Request | None) -> Said:
    if event.type is EventType.INTERRUPT:
        return "❓", event.message if request is None else _asked(request), (Style.YELLOW,)
    return ("👉", event.message, ()) if request is None else _decision(request)


def _started(event: Event) -> str:
    model, trigger = event.data["model"], event.data["trigger"]
    return f"Started execution {event.execution_id} ({trigger}, {model['provider']}/{model['name']})"


def _call(event: Event) -> Said:
    return "🔧", f"{one_line(event.data['tool_name'])} → {shown_json(event.data['args'])}", ()


def _result(event: Event, text: str) -> Said:
    good = event.data.get("outcome") == CallOutcome.DONE
    return "📎", f"{one_line(event.data['tool_name'])} ← {text}", () if good else (Style.RED,)


def _shortened(result: str) -> str:
    first, *rest = visible(result).strip("\n").split("\n")
    kept = cut(first, _RESULT_CELLS)
    notes = [f"{len(first):,} characters"] if kept != first else []
    notes += [f"{len(rest):,} more {'line' if len(rest) == 1 else 'lines'}"] if rest else []
    return f"{kept} ({', '.join(notes)})" if notes else kept


def _final(event: Event) -> Said:
    return "✅", event.message.strip("\n") or "(no text)", (Style.GREEN,)


def _ending(event: Event) -> Said | None:
    ending = _ENDINGS.get(Status(event.data["status"]))
    if ending is None:
        return None
    sign, word = ending
    parts = [part for part in (word, event.data.get("error")) if part]
    return sign, ": ".join(parts) or "ended without a reason", (Style.RED,)


def _totals(event: Event) -> str:
    cost = event.data["cost_usd"]
    shown = "unknown cost" if cost is None else f"${cost:.4f}"
    seconds = event.data["duration_ms"] / 1000
    return f"{event.data['status']} after {seconds:.1f} s of work, {event.data['total_tokens']:,} tokens, {shown}"


def _asked(request: Request) -> str:
    options = f" [{one_line(' | '.join(request.options))}]" if request.options else ""
    return f"{listed(request)}{options}"


def _decision(request: Request) -> Said:
    granted = request.answer is not None and request.answer.outcome in (Outcome.APPROVED, Outcome.ANSWERED)
    return "👉", f"{summary(request)}: {decision_text(request)}", () if granted else (Style.YELLOW,)


def _cancelled(agent: str, requests: Sequence[Request], screen: Screen) -> list[str]:
    """An end cancels what is open and stores no event for it; the timeline shows it all the same."""
    lines: list[str] = []
    for request in requests:
        if request.answer is not None and request.answer.outcome is Outcome.CANCELLED:
            lines += _said(screen.date_time(request.answer.answered_at), agent, _decision(request), screen)
    return lines


def _has_calls(data: dict[str, Any]) -> bool:
    """Whether an `ai` event's message has tool calls; one without them is the final answer, shown as such."""
    return bool(data.get("message", {}).get("data", {}).get("tool_calls"))

"""Formats stored events as the lines of a run.

`17:03:12 cleaner 🔧 file_delete → {"path": "output/old-report.txt"}`: local time, agent, a sign, what happened. Further
lines of a text are indented, so that no text can pass for a line of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import TYPE_CHECKING

from rich.text import Text

from agent_md.cli.views.hanging_indent import Hanging
from agent_md.cli.views.text_width import cut
from agent_md.cli.views.times import time_of_day
from agent_md.executions.execution import Event
from agent_md.executions.requests import Preview, Request
from agent_md.executions.states import CallOutcome, EventType, Outcome, Status
from agent_md.visible_text import one_line, visible
from agent_md.wording.call_text import call_line, shown_json
from agent_md.wording.request_text import decision_text, summary

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

__all__ = [
    "EventLine",
    "RunView",
    "Said",
    "called",
    "cut_text",
    "decided",
    "ended",
    "final",
    "has_calls",
    "head_of",
    "header",
    "of_child",
    "result",
    "retracted",
]

_RESULT_CELLS = 400
"""A result longer than this is cut in the view of a run, and says so; the timeline has it whole."""
_ASKED_CELLS = 60
"""Cells of what was asked, if it was shown before."""

_SPEAKERS = ("💬", "✅", "👤", "👉")
"""Signs of what the agent and the user say; all other texts are shown as they are, to the character."""
_AGENT = ("💬", "✅")

_ENDINGS = {
    Status.ERROR: ("❌", ""),
    Status.TIMEOUT: ("⏱", "timeout"),
    Status.ABORTED: ("🛑", "aborted"),
}
Said = tuple[str, str, str]
"""A sign, its text, and its style. The text may be of others and hold anything: `EventLine` makes it visible."""


def header(agent: str, model: str) -> list[RenderableType]:
    """The first lines of a run: `▶ Running cleaner  google/gemini-2.5-flash` and a blank line."""
    return [Text.assemble(("▶ Running", "bold"), f" {one_line(agent)}  ", (one_line(model), "dim")), ""]


def head_of(at: float, agent: str, sign: str, zone: tzinfo | None = None) -> Text:
    """The start of a line: time, agent and sign."""
    return Text.assemble((time_of_day(at, zone), "dim"), f" {one_line(agent)} {sign} ")


@dataclass(frozen=True, slots=True)
class EventLine:
    """`said` as a line that starts with the time and the agent; further lines are indented. With `markdown`, texts of
    the agent are rendered, on a terminal with styles."""

    at: float
    agent: str
    said: Said
    zone: tzinfo | None = None
    markdown: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        sign, text, style = self.said
        head = head_of(self.at, self.agent, sign, self.zone)
        if self.markdown and sign in _AGENT and console.color_system is not None:
            from agent_md.cli.views.markdown import Answer  # only who reads one pays for it

            yield Answer(head, text)
        else:
            yield Hanging(head.append(visible(text, prose=sign in _SPEAKERS), style))


@dataclass(frozen=True, slots=True)
class RunView:
    """The lines of one running execution.

    Shown are: text that comes with calls, calls, results, and the end. `human`, `interrupt`, `waiting` and the
    answers given at this terminal are not: the one who watches typed them or is asked by a prompt.
    """

    agent: str
    zone: tzinfo | None = None

    def lines(
        self, event: Event, requests: Sequence[Request] = (), *, after_prompt: bool = False
    ) -> Iterator[RenderableType]:
        """What to print for an event, perhaps nothing; a blank line first if a prompt was answered just before. `requests`
        has that of a guarded call."""
        said = _in_run(event, requests)
        if said is not None:
            yield from [""] if after_prompt else []
            yield EventLine(event.at, self.agent, said, self.zone, markdown=True)

    def decided(self, request: Request, *, shown: bool = False) -> Iterator[RenderableType]:
        """The line for a request that was decided, wherever that was: what it asked, how, and by whom. What it asked
        is cut if it was `shown` before."""
        if request.given is not None:
            yield EventLine(request.given.answered_at, self.agent, decided(request, shown=shown), self.zone)


def _in_run(event: Event, requests: Sequence[Request]) -> Said | None:
    match event.type:
        case EventType.AI:
            return ("💬", event.message, "") if event.message.strip() and has_calls(event) else None
        case EventType.TOOL_CALL:
            return called(event, brief=True, preview=requests[0].preview if requests else None)
        case EventType.TOOL_RESULT:
            return result(event, _shortened(event.message))
        case EventType.RETRACTED:
            return retracted(event)
        case EventType.CHILD_STARTED | EventType.CHILD_ENDED:
            return of_child(event)
        case EventType.FINAL_ANSWER:
            return final(event)
        case EventType.COMPLETE:
            return ended(event)
        case _:
            return None


def called(event: Event, *, brief: bool = False, preview: Preview | None = None) -> Said:
    """A `tool_call`, its arguments whole, or with `brief` long texts in them by their size, and by which grant it runs
    although a rule would ask."""
    tool, args, grant = event.data["tool_name"], event.data["args"], event.data.get("grant")
    shown = call_line(tool, args, preview, sign=" → ") if brief else f"{one_line(tool)} → {shown_json(args)}"
    allowed = "" if grant is None else f" (allowed by grant {grant['id']} of {one_line(grant['given_by'])})"
    return "🔧", f"{shown}{allowed}", ""


def result(event: Event, text: str, *, after: str = "") -> Said:
    """A `tool_result` with this text; `after` stands behind the tool's name."""
    good = event.data.get("outcome") == CallOutcome.DONE
    return "📎", f"{one_line(event.data['tool_name'])}{after} ← {text}", "" if good else "failed"


def of_child(event: Event) -> Said:
    """A `child_started` or `child_ended`."""
    if event.type is EventType.CHILD_STARTED:
        return "⤷", f"{event.message} started", "dim"
    return "⤶", event.message, "dim" if event.data["status"] == Status.SUCCESS else "failed"


def retracted(event: Event) -> Said:
    """A `retracted` answer."""
    data = event.data
    given = f"{data['outcome']} by {one_line(data['answered_by'])}"
    return (
        "↩",
        f"{one_line(data['retracted_by'])} retracted the answer ({given}); it is asked again",
        "attention",
    )


def _shortened(text: str) -> str:
    first, *rest = visible(text).strip("\n").split("\n")
    kept = cut(first, _RESULT_CELLS)
    notes = [f"{len(first):,} characters"] if kept != first else []
    notes += [f"{len(rest):,} more {'line' if len(rest) == 1 else 'lines'}"] if rest else []
    return f"{kept} ({', '.join(notes)})" if notes else kept


def final(event: Event) -> Said:
    """A `final_answer`."""
    return "✅", event.message.strip("\n") or "(no text)", ""


def ended(event: Event) -> Said | None:
    """How a `complete` execution ended, unless that was a success with a whole text."""
    if (cut := event.data.get("cut")) is not None:
        return "✂", cut_text(cut), "attention"
    ending = _ENDINGS.get(Status(event.data["status"]))
    if ending is None:
        return None
    sign, word = ending
    parts = [part for part in (word, event.data.get("error")) if part]
    return sign, ": ".join(parts) or "ended without a reason", "failed"


def cut_text(reason: str) -> str:
    """What is said of a final text that stopped before its end."""
    return f"the text above is cut: the model stopped before its end (finish reason {reason})"


def decided(request: Request, *, shown: bool, after: str = "") -> Said:
    """The decision of a request, followed by `after`. The question is shortened if it was `shown` before."""
    granted = request.given is not None and request.given.outcome in (Outcome.APPROVED, Outcome.ANSWERED)
    asked = cut(summary(request), _ASKED_CELLS) if shown else summary(request)
    return "👉", f"{asked}: {decision_text(request)}{after}", "" if granted else "attention"


def has_calls(event: Event) -> bool:
    """Whether an `ai` event's message has tool calls; one without them is the final answer."""
    return bool(event.data.get("message", {}).get("data", {}).get("tool_calls"))

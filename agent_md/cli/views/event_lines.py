"""The lines of a run: pure functions from stored events, in the seed's shape.

`17:03:12 cleaner 🔧 file_delete → {"path": "output/old-report.txt"}`: local time, agent, a sign, what happened. Further
lines of a text are indented, so that no text can pass for a line of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_md.cli.views.call_text import call_line, shown_json
from agent_md.cli.views.questions import decision_text, summary
from agent_md.cli.views.screen import PLAIN, Screen, Style
from agent_md.cli.views.visible_text import cut, fold, one_line, visible, width_of
from agent_md.executions.model import CallOutcome, Event, EventType, Outcome, Preview, Request, Status

__all__ = [
    "RunView",
    "Said",
    "called",
    "cut_text",
    "decided",
    "ended",
    "final",
    "has_calls",
    "header",
    "lines_of",
    "opening",
    "result",
    "retracted",
    "room_of",
]

_RESULT_CELLS = 400
"""A result longer than this is cut in the view of a run, and says so; the timeline has it whole."""

_MOST_ASKED = 120
"""Cells of what was asked, if it was shown before, where lines have no limit."""
_LEAST_ASKED = 24
"""Cells that what was asked keeps, however long the decision is."""

_INDENT = "  "
_NARROWEST = 12
"""Cells beside a line's head; with fewer the text begins below it."""

_SPEAKERS = ("💬", "✅", "👤", "👉")
"""Signs of what the agent and the user say; all other texts are shown as they are, to the character."""

_ENDINGS = {
    Status.ERROR: ("❌", ""),
    Status.TIMEOUT: ("⏱", "timeout"),
    Status.ABORTED: ("🛑", "aborted"),
}
Said = tuple[str, str, tuple[Style, ...]]
"""A sign, its text, and how it looks. The text may be of others and hold anything: `lines_of` makes it visible."""


def header(agent: str, model: str, screen: Screen = PLAIN) -> list[str]:
    """What a run begins with: `▶ Running cleaner  google/gemini-2.5-flash` and a blank line."""
    return [
        f"{screen.painter('▶ Running', Style.BOLD)} {one_line(agent)}  {screen.painter(one_line(model), Style.DIM)}",
        "",
    ]


def opening(agent: str, at: float, screen: Screen = PLAIN) -> str:
    """What stands before a text that the agent is still writing, without painting."""
    return f"{screen.time(at)} {one_line(agent)} 💬 "


@dataclass(frozen=True, slots=True)
class RunView:
    """The lines of one running execution.

    Shown are: text that comes with calls, calls, results, and the end. `human`, `interrupt`, `waiting` and the
    answers given at this terminal are not: the one who watches typed them or is asked by a prompt.
    """

    agent: str
    screen: Screen = PLAIN

    def lines(self, event: Event, requests: Sequence[Request] = (), *, after_prompt: bool = False) -> list[str]:
        """What to print for an event, perhaps nothing; a blank line first if a prompt was answered just before. `requests`
        has that of a guarded call."""
        said = _in_run(event, requests)
        if said is None:
            return []
        lines = lines_of(self.screen.time(event.at), self.agent, said, self.screen)
        return ["", *lines] if after_prompt else lines

    def decided(self, request: Request, *, shown: bool = False) -> list[str]:
        """The line for a request that was decided, wherever that was: what it asked, how, and by whom. What it asked
        is cut to the line if it was `shown` before."""
        if request.given is None:
            return []
        said = decided(request, shown=shown, room=room_of(self.agent, self.screen))
        return lines_of(self.screen.time(request.given.answered_at), self.agent, said, self.screen)


def lines_of(at: str, agent: str, said: Said, screen: Screen = PLAIN, *, folded: bool = False) -> list[str]:
    """`said` as a line that begins with the time and the agent; further lines of its text are indented.

    With `folded`, lines that are wider than the screen are folded, and what goes on is indented too.
    """
    sign, text, styles = said
    first, *rest = visible(text, prose=sign in _SPEAKERS).split("\n")
    head = f"{at} {one_line(agent)} {sign}"
    if folded and screen.width is not None:
        first, *over = _folded(first, screen.width - width_of(head) - 1, screen.width - len(_INDENT))
        rest = [*over, *(piece for line in rest for piece in fold(line, screen.width - len(_INDENT)))]
    line = f"{screen.painter(at, Style.DIM)}{head.removeprefix(at)} {screen.painter(first, *styles)}".rstrip()
    return [line, *(_INDENT + further for further in rest)]


def _folded(line: str, first: int, further: int) -> list[str]:
    """The line in pieces, the first one beside its head if there is room for a word or two."""
    if first < _NARROWEST:
        return ["", *fold(line, max(1, further))]
    beside = fold(line, first)[0]
    over = line[len(beside) :]
    return [beside, *fold(over, further)] if over else [beside]


def _in_run(event: Event, requests: Sequence[Request]) -> Said | None:
    match event.type:
        case EventType.AI:
            return ("💬", event.message, ()) if event.message.strip() and has_calls(event) else None
        case EventType.TOOL_CALL:
            return called(event, brief=True, preview=requests[0].preview if requests else None)
        case EventType.TOOL_RESULT:
            return result(event, _shortened(event.message))
        case EventType.RETRACTED:
            return retracted(event)
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
    return "🔧", f"{shown}{allowed}", ()


def result(event: Event, text: str, *, after: str = "") -> Said:
    """A `tool_result` with this text; `after` stands behind the tool's name."""
    good = event.data.get("outcome") == CallOutcome.DONE
    return "📎", f"{one_line(event.data['tool_name'])}{after} ← {text}", () if good else (Style.RED,)


def retracted(event: Event) -> Said:
    """A `retracted` answer."""
    data = event.data
    given = f"{data['outcome']} by {one_line(data['answered_by'])}"
    return (
        "↩",
        f"{one_line(data['retracted_by'])} retracted the answer ({given}); it is asked again",
        (Style.ATTENTION,),
    )


def _shortened(text: str) -> str:
    first, *rest = visible(text).strip("\n").split("\n")
    kept = cut(first, _RESULT_CELLS)
    notes = [f"{len(first):,} characters"] if kept != first else []
    notes += [f"{len(rest):,} more {'line' if len(rest) == 1 else 'lines'}"] if rest else []
    return f"{kept} ({', '.join(notes)})" if notes else kept


def final(event: Event) -> Said:
    """A `final_answer`."""
    return "✅", event.message.strip("\n") or "(no text)", ()


def ended(event: Event) -> Said | None:
    """How a `complete` execution ended, unless that was a success with a whole text."""
    if (cut := event.data.get("cut")) is not None:
        return "✂", cut_text(cut), (Style.ATTENTION,)
    ending = _ENDINGS.get(Status(event.data["status"]))
    if ending is None:
        return None
    sign, word = ending
    parts = [part for part in (word, event.data.get("error")) if part]
    return sign, ": ".join(parts) or "ended without a reason", (Style.RED,)


def cut_text(reason: str) -> str:
    """What is said of a final text that stopped before its end."""
    return f"the text above is cut: the model stopped before its end (finish reason {reason})"


def room_of(agent: str, screen: Screen) -> int | None:
    """Cells for what stands behind the time, the agent and the sign; None = without limit."""
    return screen.room(width_of(f"{screen.time(0)} {one_line(agent)} 👉 "))


def decided(request: Request, *, shown: bool, room: int | None, after: str = "") -> Said:
    """How a request was decided; `after` stands behind that. What it asked is cut to what is left of `room` cells if it
    was `shown` before, else it is whole."""
    granted = request.given is not None and request.given.outcome in (Outcome.APPROVED, Outcome.ANSWERED)
    asked, decision = summary(request), f": {decision_text(request)}{after}"
    if shown:
        asked = cut(asked, _MOST_ASKED if room is None else max(_LEAST_ASKED, room - width_of(decision)))
    return "👉", f"{asked}{decision}", () if granted else (Style.ATTENTION,)


def has_calls(event: Event) -> bool:
    """Whether an `ai` event's message has tool calls; one without them is the final answer."""
    return bool(event.data.get("message", {}).get("data", {}).get("tool_calls"))

"""What a human reads of a request: the question in the seed's shape, what stands above it, and how it was decided.

Lines that show text of others begin with a sign of ours or are indented, so that no text can pass for a question.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, assert_never

from agent_md.cli.views.call_text import call_line, long_texts, shown_json, text_block
from agent_md.cli.views.question_keys import Command, hint_lines
from agent_md.cli.views.screen import Painter, Screen, Style, unpainted
from agent_md.cli.views.short_json import short_json
from agent_md.cli.views.text_width import cut, fold, width_of, wrapped
from agent_md.executions.requests import Answer, Preview, Request
from agent_md.executions.states import Drift, Outcome, RequestKind, RequestSource
from agent_md.visible_text import counted, is_suspicious, one_line, visible

__all__ = [
    "QuestionText",
    "contents",
    "decision_text",
    "drift_name",
    "drift_text",
    "indented",
    "listed",
    "own_text_entry",
    "question_texts",
    "remaining",
    "rows_of",
    "summary",
    "unasked",
    "withdrawn",
]

_INDENT = "  "
_LISTED = 160
"""Cells of a payload in a list."""
_CHOICE = "Choice: "
_DETAIL = 5 * " "
_PREVIEW = f"{_DETAIL}│ "
_IN_DIFF = {"file_write": ("content",), "file_edit": ("old_text", "new_text")}
"""The arguments of a tool that its diff shows."""
_DECEIVING = "this request holds control, hidden or reordering characters (shown as escapes) or long runs of blanks"


@dataclass(frozen=True, slots=True)
class QuestionText:
    """One question as lines: what stands `above` it (may be long), the question's own lines with what can be typed, and
    the open prompt."""

    above: tuple[str, ...]
    lines: tuple[str, ...]
    prompt: str


def summary(request: Request) -> str:
    """The request on one line, visible: also the payload of a custom one, and the call that a tool asks about. Long texts
    in the arguments of a call are named by their size; nothing else is shortened."""
    return _on_one_line(request, shown_json)


def _on_one_line(request: Request, shown: Callable[[Any], str]) -> str:
    if request.source is RequestSource.GATE and request.tool_name is not None:
        return f"Confirm {call_line(request.tool_name, request.tool_args or {}, request.preview)}"
    if request.kind is RequestKind.QUESTIONS and request.questions:
        return one_line(" / ".join(question["question"] for question in request.questions))
    message = one_line(request.message)
    if request.kind is RequestKind.CONFIRM and request.tool_name is not None:
        return f"{message} ({call_line(request.tool_name, request.tool_args or {})})"
    payload = _beside_message(request)
    return f"{message} {shown(payload)}" if payload else message


def _beside_message(request: Request) -> dict[str, Any]:
    """The payload of a custom request without the text that its message repeats."""
    payload = dict(request.payload or {})
    for name in ("message", "prompt", "question"):
        if payload.get(name) == request.message:
            del payload[name]
            break
    return payload


def unasked(request: Request) -> str:
    """A request that a tool raised where nobody can be asked, on one line: all that an answer is chosen from."""
    options = request.options or ()
    if request.kind is RequestKind.QUESTIONS:
        return " / ".join(
            f"{one_line(question['question'])}{_choices([option['label'] for option in question.get('options') or []])}"
            for question in request.questions or ()
        )
    wanted = "" if request.response_schema is None else f" (must fit {shown_json(request.response_schema)})"
    return f"{summary(request)}{_choices(options)}{wanted}"


def _choices(options: Sequence[str]) -> str:
    return f" [{one_line(' | '.join(options))}]" if options else ""


def contents(request: Request, painter: Painter) -> list[str]:
    """What a call would do: the path, the diff, and the long texts of its arguments that the diff does not show. Before
    that the call, if a tool asks about one."""
    preview, args = request.preview, request.tool_args or {}
    in_diff = _IN_DIFF.get(request.tool_name or "", ()) if preview is not None and preview.diff else ()
    asks = request.source is RequestSource.TOOL and request.kind is RequestKind.CONFIRM  # itself about a call
    call = [_INDENT + call_line(request.tool_name, args)] if asks and request.tool_name is not None else []
    apart = [line for long in long_texts(args) if long.name not in in_diff for line in text_block(long)]
    return [*call, *_preview_lines(preview, painter), *apart]


def question_texts(
    request: Request,
    screen: Screen,
    *,
    drift: Sequence[Drift] = (),
    now: float | None = None,
    commands: Collection[Command] = (),
) -> list[QuestionText]:
    """The questions of a request, in order; all but `questions` have one. `now` tells how long it stays open, `commands`
    what can be typed instead of an answer."""
    above = (*_warnings(request, screen.painter, drift, now), *contents(request, screen.painter))
    hint = hint_lines(request.kind, commands, screen, multi=bool(request.multi))
    match request.kind:
        case RequestKind.CONFIRM:
            return [_confirm(request, screen, above, hint)]
        case RequestKind.INPUT:
            return [QuestionText(above, _heading(request.message, screen.painter), "> ")]
        case RequestKind.CHOICE:
            menu = (*_heading(request.message, screen.painter), *_numbered(request.options or ()))
            return [QuestionText(above, (*menu, *hint), _CHOICE)]
        case RequestKind.CUSTOM:
            payload = json.dumps(request.payload, ensure_ascii=False, indent=2)
            shown = (*above, *indented(payload), *_wanted(request))
            return [QuestionText(shown, (*_heading(request.message, screen.painter), *hint), "JSON: ")]
        case RequestKind.QUESTIONS:
            return _structured_all(request.questions or (), screen, above, commands)
        case unknown:
            assert_never(unknown)


def drift_name(part: Drift) -> str:
    """What has drifted, in a word or two."""
    return {Drift.AGENT_FILE: "agent file", Drift.CONFIG: "config", Drift.TOOL: "tool"}[part]


def drift_text(part: Drift, request: Request) -> str:
    """What has drifted since the question, and what it means for an answer, on one line."""
    match part:
        case Drift.AGENT_FILE:
            return "the agent file has changed since this execution started, which goes on with the old version"
        case Drift.CONFIG:
            return (
                "the defaults in config.yaml have changed since this execution started, which goes on with the old ones"
            )
        case Drift.TOOL:
            tool = one_line(request.tool_name or "the tool that asks")
            again = "a yes" if request.source is RequestSource.GATE else "the call"
            return f"the source of {tool} has changed since this was asked: {again} will be asked again before it runs"
        case unknown:
            assert_never(unknown)


def listed(request: Request, *, whole: bool = False) -> str:
    """The request on one line of a list, with what is new about it if it was asked before. What a tool shows is cut where
    it is long, and says so, unless it is wanted `whole`."""
    why = _why_again(request)
    again = f" ({why})" if why else ""
    return _on_one_line(request, shown_json if whole else partial(short_json, cells=_LISTED)) + again


def _wanted(request: Request) -> list[str]:
    """What the answer to a custom request must look like, if that was said."""
    if request.response_schema is None:
        return []
    return indented(f"The answer must fit the JSON Schema {json.dumps(request.response_schema, ensure_ascii=False)}")


def decision_text(request: Request) -> str:
    """How a request was decided and by whom, on one line: `approved by cli:ann`, `denied by api: not today`. If that was
    retracted, it is how it was decided before."""
    answer = request.given
    if answer is None:
        return "still open"
    by = one_line(answer.answered_by)
    match answer.outcome:
        case Outcome.APPROVED:
            edited, reason = answer.value.get("args"), answer.value.get("reason")
            how = f" with edited arguments {shown_json(edited)}" if edited is not None else ""
            return f"approved by {by}{how}{_remembered(answer)}" + (f": {_prose(reason)}" if reason else "")
        case Outcome.DENIED:
            reason = (answer.value or {}).get("reason")  # a policy denies without a value what is no confirmation
            return f"denied by {by}" + (f": {_prose(reason)}" if reason else "")
        case Outcome.ANSWERED:
            return f"answered by {by}: {_answered(request.kind, answer)}"
        case Outcome.EXPIRED:
            return "expired, nobody answered in time"
        case Outcome.CANCELLED:
            return f"cancelled by {by}"
        case unknown:
            assert_never(unknown)


def _remembered(answer: Answer) -> str:
    """What was allowed from now on with an approval."""
    remember = answer.value.get("remember")
    return "" if remember is None else f" and {one_line(remember['rule'])} from now on (grant {answer.grant_id})"


def withdrawn(request: Request, screen: Screen) -> list[str]:
    """The line that takes back an open question of a request that was decided elsewhere, folded at words."""
    answer = request.given
    at = f" at {screen.time(answer.answered_at)}" if answer is not None else ""
    given = answer is not None and answer.outcome not in (Outcome.EXPIRED, Outcome.CANCELLED)
    after = f", and retracted by {one_line(request.retraction.retracted_by)}" if request.retraction is not None else ""
    line = f"{_INDENT}Withdrawn: {'answered elsewhere: ' if given else ''}{decision_text(request)}{at}{after}"
    return [screen.painter(piece, Style.ATTENTION) for piece in wrapped(line, screen.width)]


def indented(text: str) -> list[str]:
    """The lines of a text, visible, each under ours."""
    return [_INDENT + line for line in visible(text).split("\n")]


def own_text_entry(labels: Sequence[str]) -> str:
    """The entry of a structured question, after those of its options, that stands for a text of one's own."""
    taken = {label.strip().lower() for label in labels}
    return "Other" if "other" not in taken else "A text of your own"


def rows_of(lines: Sequence[str], screen: Screen) -> int:
    """How many rows of the screen the lines take."""
    width = screen.width
    return len(lines) if width is None else sum(max(1, -(-width_of(unpainted(line)) // width)) for line in lines)


def remaining(seconds: float) -> str:
    """A time to go, rounded to its largest unit: `42 s`, `5 min`, `3 h`, `2 d`."""
    left = max(round(seconds), 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if left >= 2 * size:
            return f"{left / size:.0f} {unit}"
    return f"{left} s"


def _warnings(request: Request, painter: Painter, drift: Sequence[Drift], now: float | None) -> Iterator[str]:
    texts = []
    if is_suspicious(_everything_shown(request)):
        texts.append(_DECEIVING)
    if why := _why_again(request):
        texts.append(f"asked again: {why}")
    texts += [drift_text(part, request) for part in drift]
    if now is not None and (left := request.time_left(now)) is not None:
        texts.append(f"expires in {remaining(left)}")
    for text in texts:
        yield painter(f"{_INDENT}⚠ {text}", Style.ATTENTION)


def _why_again(request: Request) -> str:
    """What is new about a question that was asked before, visible; "" of one that was not."""
    if request.replaces is not None:
        return "the answer was retracted"
    if request.source is not RequestSource.GATE or not request.occurrence:
        return ""
    action = f"Confirm {request.tool_name} {json.dumps(request.tool_args, ensure_ascii=False)}"
    return one_line(request.message.removeprefix(action).strip(" ()"))  # the message has it behind the call


def _everything_shown(request: Request) -> list[Any]:
    preview = request.preview or Preview()
    return [
        *(request.message, request.tool_name, request.tool_args, request.options, request.questions, request.payload),
        *(preview.resolved, preview.diff, preview.type),
    ]


def _preview_lines(preview: Preview | None, painter: Painter) -> Iterator[str]:
    if preview is None:
        return
    facts = [counted(preview.size, "byte")] if preview.size is not None else []
    facts += [one_line(preview.type)] if preview.type else []
    about = f" ({', '.join(facts)})" if facts else ""
    if preview.resolved is not None or about:
        yield f"{_INDENT}→ {one_line(preview.resolved or '')}{about}"
    if preview.diff:
        for line in visible(preview.diff.removesuffix("\n")).split("\n"):
            yield _INDENT + _painted_diff(line, painter)


def _painted_diff(line: str, painter: Painter) -> str:
    if line.startswith("+"):
        return painter(line, Style.GREEN)
    return painter(line, Style.RED) if line.startswith("-") else line


def _confirm(request: Request, screen: Screen, above: tuple[str, ...], hint: tuple[str, ...]) -> QuestionText:
    question, painter = summary(request), screen.painter
    if request.source is RequestSource.TOOL:
        question = one_line(request.message)
        if "\n" in request.message:
            return QuestionText(above, (*_heading(request.message, painter), *hint), "[y/N]: ")
    if not _fits(question, screen):
        above = (*above, _INDENT + question)
        question = f"{cut(question, screen.width or 0)} (whole above)"
    return QuestionText(above, hint, f"{_mark(painter)} {question} [y/N]: ")


def _fits(question: str, screen: Screen) -> bool:
    if screen.width is None or screen.height is None:
        return True
    return width_of(question) <= screen.width * max(screen.height // 2, 3)


def _mark(painter: Painter) -> str:
    return painter("?", Style.BOLD)


def _heading(message: str, painter: Painter) -> tuple[str, ...]:
    first, *rest = visible(message).split("\n")
    return (f"{_mark(painter)} {first}", *(_INDENT + line for line in rest))


def _numbered(options: Sequence[str]) -> list[str]:
    return [f"{_INDENT}{number}. {one_line(option)}" for number, option in enumerate(options, start=1)]


def _structured_all(
    questions: Sequence[dict[str, Any]], screen: Screen, above: tuple[str, ...], commands: Collection[Command]
) -> list[QuestionText]:
    texts = []
    for number, question in enumerate(questions, start=1):
        progress = f"({number}/{len(questions)})" if len(questions) > 1 else ""
        texts.append(_structured(question, screen, progress, above if number == 1 else (), commands))
    return texts


def _structured(
    question: dict[str, Any], screen: Screen, progress: str, above: tuple[str, ...], commands: Collection[Command]
) -> QuestionText:
    """The question with all there is to its options; what is too high for the screen stands above a short menu."""
    heading = list(_heading(question["question"], screen.painter))
    header = f"[{one_line(question['header'])}]" if question.get("header") else ""
    heading[0] += "".join(f"  {screen.painter(part, Style.DIM)}" for part in (header, progress) if part)
    options: list[dict[str, Any]] = question.get("options") or []
    if not options:
        return QuestionText(above, tuple(heading), "> ")
    labels = [option["label"] for option in options]
    *entries, other = _numbered([*labels, own_text_entry(labels)])
    multi = bool(question.get("multiSelect"))
    ending = (other, *hint_lines(RequestKind.QUESTIONS, commands, screen, multi=multi))
    described = [
        line for entry, option in zip(entries, options, strict=True) for line in (entry, *_details(option, screen))
    ]
    whole = (*heading, *described, *ending)
    if screen.height is not None and rows_of(whole, screen) >= screen.height:
        return QuestionText((*above, *heading, *described), (*heading, *entries, *ending), _CHOICE)
    return QuestionText(above, whole, _CHOICE)


def _details(option: dict[str, Any], screen: Screen) -> Iterator[str]:
    """What an option means, in lines of words, and its preview as it is."""
    for paragraph in filter(None, visible(option.get("description") or "").strip().split("\n")):
        for piece in fold(paragraph, screen.room(len(_DETAIL))):
            yield screen.painter(f"{_DETAIL}{piece.rstrip()}", Style.DIM)
    if preview := option.get("markdown"):
        yield from (f"{_PREVIEW}{line}" for line in visible(preview).rstrip("\n").split("\n"))


def _answered(kind: RequestKind, answer: Answer) -> str:
    match kind:
        case RequestKind.INPUT:
            return _prose(answer.value["text"])
        case RequestKind.CHOICE:
            return one_line(", ".join(answer.value["selected"]))
        case RequestKind.QUESTIONS:
            parts = (
                f"{one_line(question)} {_prose(_joined(chosen))}"
                for question, chosen in answer.value["answers"].items()
            )
            return "; ".join(parts)
        case _:
            return shown_json(answer.value)


def _prose(text: str) -> str:
    """What a human typed, on one line."""
    return visible(text, one_line=True, prose=True)


def _joined(chosen: str | list[str]) -> str:
    return chosen if isinstance(chosen, str) else ", ".join(chosen)

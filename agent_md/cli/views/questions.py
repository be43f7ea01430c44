"""Renders a question, and the context above it.

Lines that show text of others begin with a sign of ours or are indented, so that no text can pass for a question.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

from rich.padding import Padding
from rich.text import Text

from agent_md.cli.views.hanging_indent import Hanging, Verbatim, indented, paragraph
from agent_md.cli.views.long_text_block import text_block
from agent_md.cli.views.question_keys import Command, hint_lines
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen
from agent_md.cli.views.text_width import cut, width_of
from agent_md.executions.requests import Preview, Request
from agent_md.executions.states import Drift, RequestKind, RequestSource
from agent_md.visible_text import counted, is_suspicious, one_line, visible
from agent_md.wording.call_text import call_line, long_texts, shown_json
from agent_md.wording.request_text import drift_text, remaining, repeat_reason, summary

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["QuestionText", "contents", "own_text_entry", "question_texts"]

_INDENT = "  "
_CHOICE = "Choice: "
_DETAIL = 5
"""Blanks before what is said of an option."""
_DIFF = {"+": "green", "-": "red", "@": "dim"}
"""The looks of the lines of a diff."""
_IN_DIFF = {"file_write": ("content",), "file_edit": ("old_text", "new_text")}
"""The arguments of a tool that its diff shows."""
_DECEIVING = "this request holds control, hidden or reordering characters (shown as escapes) or long runs of blanks"


@dataclass(frozen=True, slots=True)
class QuestionText:
    """One question: what stands `above` it (may be long), its own lines with what can be typed, and the open prompt.
    A line that is a text is visible, and folded at words."""

    above: tuple[RenderableType, ...]
    lines: tuple[RenderableType, ...]
    prompt: str


def contents(request: Request) -> list[RenderableType]:
    """What a call would do: the path, the diff, and the long texts of its arguments that the diff does not show. Before
    that the call, if a tool asks about one."""
    preview, args = request.preview, request.tool_args or {}
    in_diff = _IN_DIFF.get(request.tool_name or "", ()) if preview is not None and preview.diff else ()
    asks = request.source is RequestSource.TOOL and request.kind is RequestKind.CONFIRM  # itself about a call
    call = [paragraph(_INDENT + call_line(request.tool_name, args))] if asks and request.tool_name is not None else []
    apart = [item for long in long_texts(args) if long.name not in in_diff for item in text_block(long)]
    return [*call, *_preview_lines(preview), *apart]


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
    above = (*_asking_agent(request), *_warnings(request, drift, now), *contents(request))
    hint = hint_lines(request.kind, commands, screen, multi=bool(request.multi))
    match request.kind:
        case RequestKind.CONFIRM:
            return [_confirm(request, screen, above, hint)]
        case RequestKind.INPUT:
            return [QuestionText(above, (_heading(request.message),), "> ")]
        case RequestKind.CHOICE:
            menu = (_heading(request.message), *_numbered(request.options or ()))
            return [QuestionText(above, (*menu, *hint), _CHOICE)]
        case RequestKind.CUSTOM:
            payload = json.dumps(request.payload, ensure_ascii=False, indent=2)
            shown = (*above, indented(payload), *_wanted(request))
            return [QuestionText(shown, (_heading(request.message), *hint), "JSON: ")]
        case RequestKind.QUESTIONS:
            return _structured_all(request.questions or (), screen, above, commands)
        case unknown:
            assert_never(unknown)


def _wanted(request: Request) -> list[RenderableType]:
    """The expected form of the answer to a custom request, if it has a schema."""
    if request.response_schema is None:
        return []
    return [paragraph(f"{_INDENT}The answer must fit the JSON Schema {shown_json(request.response_schema)}")]


def own_text_entry(labels: Sequence[str]) -> str:
    """The entry of a structured question, after those of its options, that stands for a text of one's own."""
    taken = {label.strip().lower() for label in labels}
    return "Other" if "other" not in taken else "A text of your own"


def _asking_agent(request: Request) -> list[RenderableType]:
    """Who asks, where that is not the agent that was run."""
    if not request.path:
        return []
    agents = " > ".join(step.agent for step in request.path)
    return [Hanging(Text(f"{_INDENT}{one_line(agents)} asks:", "dim"), 4)]


def _warnings(request: Request, drift: Sequence[Drift], now: float | None) -> Iterator[RenderableType]:
    texts = []
    if is_suspicious(_everything_shown(request)):
        texts.append(_DECEIVING)
    if why := repeat_reason(request):
        texts.append(f"asked again: {why}")
    texts += [drift_text(part, request) for part in drift]
    if now is not None and (left := request.time_left(now)) is not None:
        texts.append(f"expires in {remaining(left)}")
    for text in texts:
        yield Hanging(Text(f"{_INDENT}⚠ {text}", "attention"), 4)


def _everything_shown(request: Request) -> list[Any]:
    preview = request.preview or Preview()
    return [
        *(request.message, request.tool_name, request.tool_args, request.options, request.questions, request.payload),
        *(preview.resolved, preview.diff, preview.type),
    ]


def _preview_lines(preview: Preview | None) -> Iterator[RenderableType]:
    if preview is None:
        return
    facts = [counted(preview.size, "byte")] if preview.size is not None else []
    facts += [one_line(preview.type)] if preview.type else []
    about = f" ({', '.join(facts)})" if facts else ""
    if preview.resolved is not None or about:
        yield Verbatim([(f"{one_line(preview.resolved or '')}{about}", "")], f"{_INDENT}→ ", 4 * " ")
    if preview.diff:
        lines = visible(preview.diff.removesuffix("\n")).split("\n")
        yield Verbatim([(line, _DIFF.get(line[:1], "")) for line in lines])


def _confirm(
    request: Request, screen: Screen, above: tuple[RenderableType, ...], hint: tuple[RenderableType, ...]
) -> QuestionText:
    question = summary(request)
    if request.source is RequestSource.TOOL:
        question = one_line(request.message)
        if "\n" in request.message:
            return QuestionText(above, (_heading(request.message), *hint), "[y/N]: ")
    if not _fits(question, screen):
        above = (*above, paragraph(_INDENT + question))
        question = f"{cut(question, screen.width or 0)} (whole above)"
    return QuestionText(above, hint, f"? {question} [y/N]: ")


def _fits(question: str, screen: Screen) -> bool:
    if screen.width is None or screen.height is None:
        return True
    return width_of(question) <= screen.width * max(screen.height // 2, 3)


def _heading(message: str, beside: str = "") -> RenderableType:
    """A question, each further line of it below the first; `beside` stands behind that."""
    first, *rest = visible(message).split("\n")
    return Hanging(Text("\n").join([Text.assemble(("?", "bold"), f" {first}", (beside, "dim")), *map(Text, rest)]))


def _numbered(options: Sequence[str]) -> list[RenderableType]:
    return [
        Hanging(Text(f"{_INDENT}{number}. {one_line(option)}"), _DETAIL)
        for number, option in enumerate(options, start=1)
    ]


def _structured_all(
    questions: Sequence[dict[str, Any]],
    screen: Screen,
    above: tuple[RenderableType, ...],
    commands: Collection[Command],
) -> list[QuestionText]:
    texts = []
    for number, question in enumerate(questions, start=1):
        progress = f"({number}/{len(questions)})" if len(questions) > 1 else ""
        texts.append(_structured(question, screen, progress, above if number == 1 else (), commands))
    return texts


def _structured(
    question: dict[str, Any],
    screen: Screen,
    progress: str,
    above: tuple[RenderableType, ...],
    commands: Collection[Command],
) -> QuestionText:
    """The question with all details of its options; if it is too high for the screen, they are shown above a short
    menu."""
    header = f"[{one_line(question['header'])}]" if question.get("header") else ""
    heading = _heading(question["question"], "".join(f"  {part}" for part in (header, progress) if part))
    options: list[dict[str, Any]] = question.get("options") or []
    if not options:
        return QuestionText(above, (heading,), "> ")
    labels = [option["label"] for option in options]
    *entries, other = _numbered([*labels, own_text_entry(labels)])
    multi = bool(question.get("multiSelect"))
    ending = (other, *hint_lines(RequestKind.QUESTIONS, commands, screen, multi=multi))
    described = [line for entry, option in zip(entries, options, strict=True) for line in (entry, *_details(option))]
    whole = (heading, *described, *ending)
    if screen.height is not None and len(rendered(screen, *whole)) >= screen.height:
        return QuestionText((*above, heading, *described), (heading, *entries, *ending), _CHOICE)
    return QuestionText(above, whole, _CHOICE)


def _details(option: dict[str, Any]) -> Iterator[RenderableType]:
    """The description of an option, and its preview unchanged."""
    if description := visible(option.get("description") or "").strip():
        lines = "\n".join(filter(None, description.split("\n")))
        yield Padding.indent(Text(lines, "dim", overflow="fold"), _DETAIL)
    if preview := option.get("markdown"):
        yield indented(preview.rstrip("\n"), f"{' ' * _DETAIL}│ ")

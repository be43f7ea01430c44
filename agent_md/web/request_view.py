"""What a page shows of a request."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_md.executions.execution import Execution
from agent_md.executions.requests import Preview, Request
from agent_md.executions.states import Drift, RequestKind, RequestSource
from agent_md.visible_text import counted, is_suspicious, visible
from agent_md.wording.call_text import LongText, long_texts, sized_json
from agent_md.wording.request_text import decision_text, drift_text, remaining, repeat_reason, summary

__all__ = ["Entry", "RequestView", "entry_of", "order_of", "view_of"]

_IN_DIFF = {"file_write": ("content",), "file_edit": ("old_text", "new_text")}
"""The arguments of a tool that its diff shows."""
_ENTRY = 200


@dataclass(frozen=True, slots=True)
class Entry:
    """A request in a list."""

    id: str
    agent: str
    execution_id: int
    kind: str
    summary: str
    time_left: str | None
    deadline: float | None
    order: str
    is_urgent: bool


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request by itself. `texts` are long arguments that the diff does not show, `arguments` the others as JSON."""

    request: Request
    execution: Execution
    title: str
    why_again: str
    warnings: tuple[str, ...]
    arguments: str | None
    texts: tuple[LongText, ...]
    facts: str
    diff: tuple[tuple[str, str], ...]
    time_left: str | None
    decision: str | None
    editable: bool


def order_of(request: Request) -> str:
    """Sorts as the inbox does: the earliest deadline first, those without one last, each oldest first."""
    deadline = "~" if request.expires_at is None else f"{request.expires_at:017.3f}"
    return f"{deadline} {request.created_at:017.3f}"


def entry_of(request: Request, now: float | None = None) -> Entry:
    """A request as one row of the inbox; the text is cut where it is long."""
    left = request.time_left(time.time() if now is None else now)
    text = summary(request)
    return Entry(
        request.id,
        " > ".join(step.agent for step in request.path) or request.agent,
        request.execution_id,
        str(request.kind),
        text if len(text) <= _ENTRY else f"{text[:_ENTRY]}…",
        None if left is None else remaining(left),
        request.expires_at,
        order_of(request),
        left is not None and left < 300,
    )


def view_of(
    request: Request, execution: Execution, drift: Sequence[Drift] = (), *, original: Request | None = None
) -> RequestView:
    """A request with what has drifted. `original`: the request as it is stored, if this one has edited arguments."""
    stored = original or request
    left = stored.time_left(time.time())
    args = request.tool_args
    in_diff = _IN_DIFF.get(request.tool_name or "", ()) if request.preview is not None and request.preview.diff else ()
    return RequestView(
        request,
        execution,
        _title(request),
        repeat_reason(stored),
        tuple(_warnings(request, drift)),
        None if args is None else _arguments(args),
        tuple(text for text in long_texts(args or {}) if text.name not in in_diff),
        _facts(request.preview),
        _diff_lines(request.preview),
        None if left is None or not stored.open else remaining(left),
        None if stored.open else decision_text(stored),
        stored.open and request.kind is RequestKind.CONFIRM and request.source is RequestSource.GATE,
    )


def _title(request: Request) -> str:
    if request.source is RequestSource.GATE and request.tool_name is not None:
        return f"May {request.agent} call {request.tool_name}?"
    if request.kind is RequestKind.QUESTIONS:
        return counted(len(request.questions or ()), "question")
    return request.message or "A tool asks"


def _warnings(request: Request, drift: Sequence[Drift]) -> list[str]:
    shown: list[Any] = [request.message, request.tool_name, request.tool_args, request.options, request.questions]
    preview = request.preview or Preview()
    shown += [request.payload, preview.resolved, preview.diff, preview.type]
    found = []
    if is_suspicious(shown):
        found.append(
            "this request holds control, hidden or reordering characters (shown as escapes) or long runs of blanks"
        )
    return [*found, *(drift_text(part, request) for part in drift)]


def _arguments(args: dict[str, Any]) -> str:
    """Long texts stand as their size; they are shown apart, or in the diff."""
    if not long_texts(args):
        return json.dumps(args, ensure_ascii=False, indent=2)
    parts = [f"  {json.dumps(name, ensure_ascii=False)}: {sized_json(value)}" for name, value in args.items()]
    return "{\n" + ",\n".join(parts) + "\n}"


def _facts(preview: Preview | None) -> str:
    if preview is None:
        return ""
    size = [counted(preview.size, "byte")] if preview.size is not None else []
    return ", ".join([*size, *([preview.type] if preview.type else [])])


_LOOKS = {"+": "added", "-": "removed", "@": "place"}


def _diff_lines(preview: Preview | None) -> tuple[tuple[str, str], ...]:
    """The lines of the diff, visible, each with its class."""
    if preview is None or not preview.diff:
        return ()
    lines = visible(preview.diff.removesuffix("\n")).split("\n")
    return tuple((line, _LOOKS.get(line[:1], "same")) for line in lines)

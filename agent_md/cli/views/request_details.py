"""Everything that is known of a request, for who wants to see more than the question before answering."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_md.cli.views.call_text import long_texts, sized_json, text_block
from agent_md.cli.views.questions import indented
from agent_md.cli.views.screen import Screen, Style
from agent_md.executions.requests import Request
from agent_md.visible_text import one_line

__all__ = ["everything", "room_beside"]

_INDENT = "  "


def everything(request: Request, screen: Screen, *, rule: str, conversation: Sequence[str]) -> list[str]:
    """Why it is asked (`rule`), its digest, the whole arguments and what else it says, and the `conversation` before it,
    whose lines are visible and have `room_beside`."""
    lines = [*indented(f"request {one_line(request.id)}"), *indented(f"asked by: {one_line(rule)}")]
    if request.digest:
        lines += indented(f"digest: {one_line(request.digest)}")
    if request.preview is not None and request.preview.resolved is not None:
        lines += indented(f"path: {one_line(request.preview.resolved)}")
    for name, value in _contents(request).items():
        lines += [_head(name, screen), *_shown(value)]
    if conversation:
        lines += [_head("conversation", screen), *(_INDENT + line for line in conversation)]
    return lines


def room_beside(screen: Screen) -> Screen:
    """The screen that lines of a conversation are made for."""
    return replace(screen, width=screen.room(len(_INDENT)))


def _contents(request: Request) -> dict[str, Any]:
    found = {
        "arguments": request.tool_args,
        "options": request.options,
        "questions": request.questions,
        "payload": request.payload,
        "schema of the answer": request.response_schema,
    }
    return {name: value for name, value in found.items() if value is not None}


def _shown(value: Any) -> list[str]:
    """JSON, and long texts in an object line by line below it."""
    longs = long_texts(value) if isinstance(value, dict) else []
    shown = sized_json(value) if longs else json.dumps(value, ensure_ascii=False, indent=2)
    return [*indented(shown), *(line for long in longs for line in text_block(long))]


def _head(name: str, screen: Screen) -> str:
    return screen.painter(f"  ── {name} ──", Style.DIM)

"""Renders all details of a request, for `?`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.padding import Padding

from agent_md.cli.views.hanging_indent import indented, paragraph
from agent_md.cli.views.long_text_block import text_block
from agent_md.executions.requests import Request
from agent_md.visible_text import one_line
from agent_md.wording.call_text import long_texts, sized_json

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["everything"]


def everything(request: Request, *, rule: str, conversation: Sequence[RenderableType]) -> list[RenderableType]:
    """Why it is asked (`rule`), its digest, the whole arguments and what else it says, and the `conversation` before it."""
    facts = [f"request {request.id}", f"asked by: {rule}"]
    if request.digest:
        facts.append(f"digest: {request.digest}")
    if request.preview is not None and request.preview.resolved is not None:
        facts.append(f"path: {request.preview.resolved}")
    shown: list[RenderableType] = [paragraph(f"  {one_line(fact)}") for fact in facts]
    for name, value in _contents(request).items():
        shown += [_head(name), *_shown(value)]
    if conversation:
        shown += [_head("conversation"), *(Padding.indent(item, 2) for item in conversation)]
    return shown


def _contents(request: Request) -> dict[str, Any]:
    found = {
        "arguments": request.tool_args,
        "options": request.options,
        "questions": request.questions,
        "payload": request.payload,
        "schema of the answer": request.response_schema,
    }
    return {name: value for name, value in found.items() if value is not None}


def _shown(value: Any) -> list[RenderableType]:
    """JSON, and long texts in an object line by line below it."""
    longs = long_texts(value) if isinstance(value, dict) else []
    shown = sized_json(value) if longs else json.dumps(value, ensure_ascii=False, indent=2)
    return [indented(shown), *(item for long in longs for item in text_block(long))]


def _head(name: str) -> RenderableType:
    return paragraph(f"  ── {name} ──", "dim")

"""A request on one line of a list, and the line that withdraws its question."""

from __future__ import annotations

from datetime import tzinfo
from functools import partial
from typing import TYPE_CHECKING

from agent_md.cli.views.hanging_indent import paragraph
from agent_md.cli.views.short_json import short_json
from agent_md.cli.views.times import time_of_day
from agent_md.executions.requests import Request
from agent_md.executions.states import Outcome
from agent_md.visible_text import one_line
from agent_md.wording.call_text import shown_json
from agent_md.wording.request_text import decision_text, on_one_line, repeat_reason

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["listed", "withdrawn"]

_INDENT = "  "
_LISTED = 160
"""Cells of a payload in a list."""


def listed(request: Request, *, whole: bool = False) -> str:
    """The request on one line of a list, with what is new about it if it was asked before. What a tool shows is cut where
    it is long, and says so, unless it is wanted `whole`."""
    why = repeat_reason(request)
    again = f" ({why})" if why else ""
    return on_one_line(request, shown_json if whole else partial(short_json, cells=_LISTED)) + again


def withdrawn(request: Request, zone: tzinfo | None = None) -> RenderableType:
    """What takes back an open question of a request that was decided elsewhere."""
    answer = request.given
    at = f" at {time_of_day(answer.answered_at, zone)}" if answer is not None else ""
    given = answer is not None and answer.outcome not in (Outcome.EXPIRED, Outcome.CANCELLED)
    after = f", and retracted by {one_line(request.retraction.retracted_by)}" if request.retraction is not None else ""
    line = f"{_INDENT}Withdrawn: {'answered elsewhere: ' if given else ''}{decision_text(request)}{at}{after}"
    return paragraph(line, "attention")

"""The table of `answers`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from agent_md.cli.views.listed_request import listed
from agent_md.cli.views.short_json import short_json
from agent_md.cli.views.table_layout import Listing
from agent_md.cli.views.times import date_time
from agent_md.executions.given_answers import GivenAnswer
from agent_md.visible_text import one_line
from agent_md.wording.request_text import decision_text

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["answers_table"]

_LISTED = 200


def answers_table(answers: Sequence[GivenAnswer], *, zone: tzinfo | None = None) -> RenderableType:
    """Answers in the given order: when, execution, agent, question, decision; below a retracted one stands by whom."""
    if not answers:
        return "No such answers."
    cells = [
        (date_time(given.answer.answered_at, zone), str(given.execution_id), one_line(given.agent), *_said(given))
        for given in answers
    ]
    below = [_retracted(given, zone) for given in answers]
    return Listing(("Decided", "#", "Agent", "Question", "Decision"), cells, yielding=(3, 4, 2), below=below)


def _said(given: GivenAnswer) -> tuple[str, str]:
    if given.request is not None:
        return listed(given.request), decision_text(given.request)
    answer = given.answer
    value = "" if answer.value is None else f": {short_json(answer.value, _LISTED)}"
    return "(its execution was removed)", f"{answer.outcome} by {one_line(answer.answered_by)}{value}"


def _retracted(given: GivenAnswer, zone: tzinfo | None) -> str:
    if given.retracted_by is None or given.retracted_at is None:
        return ""
    return f"retracted by {one_line(given.retracted_by)} at {date_time(given.retracted_at, zone)}"

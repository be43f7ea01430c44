"""The table of grants, and one grant as a short text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING

from agent_md.cli.views.table_layout import Listing
from agent_md.cli.views.times import date_time
from agent_md.executions.grants import Grant, GrantEnd, GrantScope
from agent_md.executions.states import Drift
from agent_md.visible_text import one_line
from agent_md.wording.request_text import drift_name

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["grant_text", "grants_table", "state_text"]


def grants_table(rows: Sequence[tuple[Grant, Sequence[Drift]]], *, zone: tzinfo | None = None) -> RenderableType:
    """Grants in the given order: number, agent, rule, scope, end, who gave it; below an inactive grant the reason.
    `Drift` is what suspends it."""
    if not rows:
        return "No grants."
    cells = [
        (
            *(str(grant.id), one_line(grant.agent), one_line(grant.rule), _whose(grant)),
            *("never" if grant.until is None else date_time(grant.until, zone), one_line(grant.given_by)),
        )
        for grant, _ in rows
    ]
    below = [state_text(grant, drift, zone=zone) for grant, drift in rows]
    titles = ("#", "Agent", "Allows", "For", "Ends", "Given by")
    return Listing(titles, cells, yielding=(2, 3, 1, 5), below=below)


def grant_text(grant: Grant, *, zone: tzinfo | None = None) -> str:
    """Which grant it is, for whose calls and until when, on one line."""
    until = "without end" if grant.until is None else f"until {date_time(grant.until, zone)}"
    return f"grant {grant.id} of {one_line(grant.given_by)}, for {_whose(grant)}, {until}"


def state_text(grant: Grant, drift: Sequence[Drift], *, zone: tzinfo | None = None) -> str:
    """Why a grant does not hold; empty if it does."""
    match grant.ended:
        case GrantEnd.EXPIRED:
            return "expired"
        case GrantEnd.REVOKED:
            at = "" if grant.ended_at is None else f" at {date_time(grant.ended_at, zone)}"
            return f"revoked by {one_line(grant.ended_by or 'somebody')}{at}"
        case GrantEnd.OVER:
            return f"over: its {grant.scope} has ended"
    if drift:
        return f"suspended, since this has changed: {', '.join(map(drift_name, drift))}"
    return ""


def _whose(grant: Grant) -> str:
    match grant.scope:
        case GrantScope.EXECUTION:
            return f"execution {grant.execution_id}"
        case GrantScope.SESSION:
            return f"session {one_line(grant.session_id or '')}"
        case GrantScope.AGENT:
            return "all executions"

"""The table of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import TYPE_CHECKING, NamedTuple

from agent_md.cli.views.table_layout import Listing
from agent_md.cli.views.times import date_time
from agent_md.executions.sessions import Session
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["SessionRow", "sessions_table"]


class SessionRow(NamedTuple):
    """A session to list, and how many turns it has."""

    session: Session
    turns: int


def sessions_table(rows: Sequence[SessionRow], *, zone: tzinfo | None = None) -> RenderableType:
    """Sessions in the given order: id, agent, status, turns, last change, last execution."""
    if not rows:
        return "No sessions."
    cells = [
        (
            *(one_line(session.id), one_line(session.agent), str(session.status), str(turns)),
            *(date_time(session.changed_at, zone), "–" if session.turn is None else str(session.turn.id)),
        )
        for session, turns in rows
    ]
    return Listing(("Session", "Agent", "Status", "Turns", "Changed", "Last turn"), cells, yielding=(0, 1, 4))

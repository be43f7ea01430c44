"""The one row that says that something goes on, and for how long."""

from __future__ import annotations

from agent_md.cli.views.durations import spent
from agent_md.cli.views.visible_text import cut

__all__ = ["QUIET_S", "TICK_S", "progress_row"]

TICK_S = 0.1
"""How often the row is shown anew."""

QUIET_S = 0.3
"""What takes less shows no progress: it would only flicker."""

_SIGNS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def progress_row(step: int, agent: str, label: str, passed: float, width: int) -> str:
    """`⠙ cleaner · thinking… 4 s` in at most `width` columns; `agent` and `label` are visible texts."""
    time_passed = f" {spent(passed)}" if passed >= 1 else ""
    return cut(f"{_SIGNS[step % len(_SIGNS)]} {agent} · {label}…{time_passed}", width)

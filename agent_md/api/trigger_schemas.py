"""Pydantic models of the triggers routes."""

from __future__ import annotations

from typing import Literal

from agent_md.api.request_bodies import RequestBody
from agent_md.api.schemas import Open

__all__ = ["FiringEntry", "HookAnswer", "PauseBody", "ScheduledJob", "Scheduler", "UpcomingFireEntry"]


class UpcomingFireEntry(Open):
    agent: str
    at: str


class FiringEntry(Open):
    id: int
    agent_name: str
    trigger: str
    due_at: str
    state: Literal["due", "started", "skipped"]
    reason: str | None
    execution_id: int | None
    decided_at: str | None


class PauseBody(RequestBody):
    """Whose triggers: those of one agent, or of all."""

    agent: str | None = None


class ScheduledJob(Open):
    agent_name: str
    trigger_type: str
    next_run: str | None
    paused_by: str | None
    waiting: list[int]
    last_skipped: FiringEntry | None


class Scheduler(Open):
    status: Literal["running", "paused"]
    jobs: list[ScheduledJob]


class HookAnswer(Open):
    execution_id: int

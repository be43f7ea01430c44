"""Queries of the store for executions."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.spending import Refusal
from agent_md.executions.states import Status

__all__ = ["ExecutionQueries"]


class ExecutionQueries(Protocol):
    """Executions, their specs, their first messages and their costs."""

    def execution(self, execution_id: ExecutionId) -> Execution:
        """Raises UnknownExecution."""

    def executions(
        self,
        *,
        ids: Collection[ExecutionId] | None = None,
        statuses: Collection[Status] = (),
        agent: str | Collection[str] | None = None,
        session_id: str | None = None,
        unknown: bool | None = None,
        since: float | None = None,
        containing: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Execution]:
        """Newest first. Without `statuses`, and with None, all match; `ids` are the only ones wanted; `agent` is one name,
        or any of several; `unknown`: whether there are `unknown_calls`; `since`: created then or later; `saying`: one of
        their events `says` it (`executions.search`)."""

    def agent_names(self) -> list[str]:
        """The agents that have executions, sorted, as each was written when it ran."""

    def count(self, statuses: Collection[Status]) -> int:
        """How many executions have one of these statuses."""

    def spent(self, since: float, agent: str | None = None) -> float | None:
        """US dollars for model calls since then: of an agent's executions and those below them, or of all; None if the
        cost of one is unknown."""

    def costs(self, by: CostBy, *, agents: Collection[str] | None = None, since: float | None = None) -> list[Cost]:
        """What model calls have cost so far, or since then: of all executions, or of those of these agents, removed ones
        among them.
        Days come newest first, agents and models dearest first."""

    def refusals(
        self,
        *,
        agents: Collection[str] | None = None,
        session_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Refusal]:
        """Runs that were not created, newest first; at least the last 1,000 of all agents are kept."""

    def seed(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        """The first messages of the execution in stored form."""

    def in_thread(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        """Those of its first messages that its thread begins with: none, but all in executions of older versions."""

    def said(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        """What came after its first messages, in stored form: AI messages and results, in conversation order."""

    def spec(self, execution_id: ExecutionId) -> str:
        """The spec it started with, in stored form."""

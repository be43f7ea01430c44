"""Decisions of requests of all executions, including retracted ones and those of removed executions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Answer, Request
from agent_md.executions.states import Outcome

__all__ = ["AnswerFilter", "GivenAnswer"]


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """An answer with what was asked. `request` None: its execution was removed, and of the answer only who, when, its
    outcome and value are left."""

    execution_id: ExecutionId
    agent: str
    answer: Answer
    request: Request | None = None
    retracted_by: str | None = None
    retracted_at: float | None = None

    @classmethod
    def of(cls, request: Request) -> GivenAnswer | None:
        """The answer of a request; None if it is open."""
        if request.given is None:
            return None
        who = () if request.retraction is None else (request.retraction.retracted_by, request.retraction.retracted_at)
        return cls(request.execution_id, request.agent, request.given, request, *who)


@dataclass(frozen=True, slots=True)
class AnswerFilter:
    """Which answers are wanted; None and empty = all. `by`: who gave them, or their name behind its channel (`ann` of
    `cli:ann`); `since`: decided then or later."""

    agents: Collection[str] | None = None
    execution_id: ExecutionId | None = None
    outcomes: Collection[Outcome] = ()
    by: str | None = None
    since: float | None = None

    def takes(self, given: GivenAnswer) -> bool:
        """Whether an answer is one of them."""
        answer = given.answer
        return (
            (self.agents is None or given.agent in self.agents)
            and self.execution_id in (None, given.execution_id)
            and (not self.outcomes or answer.outcome in self.outcomes)
            and (
                self.by is None
                or self.by in (answer.answered_by, answer.answered_by[answer.answered_by.find(":") + 1 :])
            )
            and (self.since is None or answer.answered_at >= self.since)
        )

"""`RunContext`: what the nodes of one execution's graph need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from agent_md.agents.spec import AgentSpec
from agent_md.executions.execution import Execution, Usage
from agent_md.executions.ids import ExecutionId
from agent_md.executions.spending import Budget
from agent_md.graph.family_limits import FamilyLimits
from agent_md.graph.side_by_side import SideBySide
from agent_md.ports.journal import Journal
from agent_md.ports.progress import ProgressSink
from agent_md.ports.store import Store
from agent_md.redaction import Redactor
from agent_md.tools.base import Tool

__all__ = ["CallModel", "HandedOver", "RunContext"]

CallModel = Callable[[Sequence[BaseMessage], Callable[[str], None], Callable[[int, int], None]], Awaitable[AIMessage]]
"""Gives the model's whole message for a history in provider shape, and its text piece by piece to the first callback.

Retries by itself, after a call of the second one: which attempt comes, of how many. Raises ModelFailed, or UsageError if this process cannot ask it.
"""


class HandedOver(Exception):
    """The driver leaves the execution to another one; nothing of it is in flight."""


@dataclass(frozen=True)
class RunContext:
    """The parts of one drive: made anew each time an execution is driven."""

    execution: Execution
    spec: AgentSpec
    store: Store
    journal: Journal
    tools: Mapping[str, Tool]
    call_model: CallModel
    usage_of: Callable[[AIMessage], Usage]
    sink: ProgressSink
    workspace: Path
    resolve_path: Callable[[str], Path]
    aside: Callable[[Callable[[], Any]], Awaitable[Any]]
    """Calls a function that may run code of custom tools, such as validators of arguments, off the driver's loop."""
    budget_of: Callable[[Sequence[BaseMessage]], Budget | None]
    """What limits the money of a call with this history; None = nothing does."""
    close: Callable[[], Awaitable[None]]
    """Frees what the drive opened, on its event loop."""
    redactor: Redactor = field(default_factory=Redactor)
    """Takes secrets out of whatever is stored, shown and sent."""
    side_by_side: SideBySide = field(default_factory=SideBySide)
    """Which of its calls run at the same time."""
    leave: Callable[[], bool] = lambda: False
    """Whether the drive is to end before the next model call, by HandedOver."""

    @cached_property
    def limits(self) -> FamilyLimits:
        """What the execution, and those above it, may use."""
        return FamilyLimits(self.store, self.execution.id, self.spec)

    @property
    def execution_id(self) -> ExecutionId:
        return self.execution.id

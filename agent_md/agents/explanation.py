"""What can be said of an agent before it runs: its possible decisions, grants, triggers and problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_md.agents.explained_rules import PossibleDecision
from agent_md.agents.spec import AgentSpec
from agent_md.executions.firings import TriggerState
from agent_md.executions.grants import Grant
from agent_md.executions.states import Drift

__all__ = ["ASKING_TOOLS", "Explanation", "ListedTool"]

ASKING_TOOLS = ("ask_user", "ask_user_question")
"""Tools that ask something when they run."""


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool of an agent. `origin` is `built in`, the file of its module, or its MCP server; `parameters` is the JSON schema of
    its arguments."""

    name: str
    origin: str
    description: str
    parameters: Mapping[str, Any]

    @property
    def arguments(self) -> str:
        """The names of its arguments, with `?` behind those that can be left out."""
        required = self.parameters.get("required", ())
        return ", ".join(name if name in required else f"{name}?" for name in self.parameters.get("properties", {}))


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is to be said of an agent. `guards` says where `confirm_tools` was set; `problems` keep it from running,
    `notes` do not."""

    spec: AgentSpec
    calls: tuple[PossibleDecision, ...]
    guards: str
    custom: bool = False
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    day_limit: float | None = None
    """US dollars that all agents of the workspace together may spend in a day."""
    trigger: TriggerState = field(default_factory=TriggerState)
    fires: tuple[str, ...] = ()
    """The next fires of its schedule, in its zone."""
    grants: tuple[tuple[Grant, tuple[Drift, ...]], ...] = ()
    """Those that have not ended, each with what suspends it."""
    tools: tuple[ListedTool, ...] = ()

    def place_of(self, possible: PossibleDecision) -> str | None:
        """The file that has the rule; None when no rule decides, or the tool itself."""
        source = possible.verdict.source
        if source in (None, "requires_approval"):
            return None
        return self.guards if source == "confirm_tools" else self.spec.source_path

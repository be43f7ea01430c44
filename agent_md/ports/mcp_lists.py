"""What MCP servers said of their tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agent_md.executions.ids import ExecutionId

__all__ = ["McpLists", "StoredTools"]

StoredTools = Sequence[Mapping[str, Any]]
"""JSON of the tools of one server."""


class McpLists(Protocol):
    """The tools of MCP servers: those that each execution began with, and those that each server named last."""

    def kept(self, execution_id: ExecutionId) -> dict[str, StoredTools]:
        """The tools that an execution has for its whole life, by server; servers that never answered it are not there."""

    def keep(self, execution_id: ExecutionId, lists: Mapping[str, StoredTools]) -> dict[str, StoredTools]:
        """Keeps them for the execution, and gives what `kept` gives from now on: the first list of a server counts.
        Raises UnknownExecution."""

    def heard(self, server: str, tools: StoredTools) -> None:
        """Records what a server named now."""

    def last(self, server: str) -> StoredTools | None:
        """What a server named last; None if none of this name was ever heard."""

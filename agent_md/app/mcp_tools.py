"""The tools of MCP servers that an execution has: those that its servers named when it was driven first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_md.agents.spec import AgentSpec
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.ports.store import Store

if TYPE_CHECKING:
    from agent_md.app.app import App
    from agent_md.tools.mcp.declared import DeclaredTool

__all__ = ["kept_mcp_tools", "mcp_tools_of"]


def kept_mcp_tools(store: Store, execution_id: ExecutionId) -> list[DeclaredTool]:
    """The tools that the execution began with."""
    from agent_md.tools.mcp.declared import from_stored

    lists = store.mcp_lists.kept(execution_id)
    return [tool for server, stored in lists.items() for tool in from_stored(server, stored)]


def mcp_tools_of(app: App, execution: Execution, spec: AgentSpec) -> tuple[Sequence[DeclaredTool], list[str]]:
    """The tools of an execution, and what is to be said of servers that cannot be used. Starts the servers that have not
    answered it yet; with those that have, nothing is spoken. One that is only looked at, with the id 0, keeps nothing.
    """
    from agent_md.tools.mcp.declared import from_stored, to_stored

    if not spec.mcp:
        return (), []
    kept = app.reading_store.mcp_lists.kept(execution.id)
    listings = app.assembly.mcp.listed([server for server in spec.mcp if server not in kept])
    new = {server: to_stored(listing.tools) for server, listing in listings.items() if listing.failure is None}
    if execution.id and new:
        kept = app.store.mcp_lists.keep(execution.id, new)
    tools = [
        tool for server, stored in {**new, **kept}.items() if server in spec.mcp for tool in from_stored(server, stored)
    ]
    failures = {server: listing.failure for server, listing in listings.items() if listing.failure is not None}
    return tools, [f"The MCP server {server} cannot be used: {why}" for server, why in failures.items()]

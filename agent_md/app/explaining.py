"""Explains an agent: looks at its tools, rules, grants and triggers as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_md.agents.explained_rules import possible_verdicts
from agent_md.agents.explanation import Explanation, ListedTool
from agent_md.agents.spec import AgentSpec
from agent_md.app.app import App
from agent_md.executions.grants import Grant
from agent_md.executions.states import Drift

if TYPE_CHECKING:
    from agent_md.tools.base import Tool

__all__ = ["explained"]

_FIRES = 3


def explained(app: App, spec: AgentSpec, notes: Sequence[str] = (), *, static: bool = False) -> Explanation:
    """The explanation of an agent as it would run now, with these further notes; a `static` one says nothing of custom
    tools. Raises AgentFileInvalid if its tools cannot be loaded."""
    from agent_md.tools.facts import facts_of
    from agent_md.tools.module_tool import ModuleTool

    listings = {} if static else app.preflight.mcp_listings(spec)
    mcp = [tool for listing in listings.values() for tool in listing.tools]
    unusable = [
        f"the MCP server {name} cannot be used: {each.failure}" for name, each in listings.items() if each.failure
    ]
    tools = app.assembly.tools(spec, mcp=mcp, custom=not static)
    calls = [possible for name in sorted(tools) for possible in possible_verdicts(spec, facts_of(tools[name]))]
    listed = [
        ListedTool(name, _where_from(app, tools[name]), tools[name].description, tools[name].parameters)
        for name in sorted(tools)
    ]
    origin = app.settings.origins["defaults.confirm_tools"]
    check = app.preflight.problems_without_tools if static else app.preflight.problems
    unseen = (*spec.tools, *spec.mcp) if static else ()
    return Explanation(
        spec,
        tuple(calls),
        "built in" if origin == "default" else origin,
        custom=any(isinstance(tool, ModuleTool) for tool in tools.values()),
        problems=(*unusable, *map(str, check(spec))),
        grants=_grants(app, spec),
        notes=(
            *(f"the tools of {name} are not shown, since nothing was loaded" for name in unseen),
            *app.preflight.trigger_problems(spec),
            *app.preflight.notes(spec, static=static),
            *notes,
        ),
        day_limit=app.settings.max_cost_usd_per_day,
        trigger=app.triggers.state(spec),
        fires=tuple(app.triggers.next_fires(spec, _FIRES)),
        tools=tuple(listed),
    )


def _where_from(app: App, tool: Tool) -> str:
    from agent_md.tools.mcp.tool import McpTool
    from agent_md.tools.module_tool import ModuleTool

    if isinstance(tool, ModuleTool):
        path = tool.module_path
        inside = path.is_relative_to(app.settings.workspace)
        return str(path.relative_to(app.settings.workspace) if inside else path)
    return f"MCP server {tool.server}" if isinstance(tool, McpTool) else "built in"


def _grants(app: App, spec: AgentSpec) -> tuple[tuple[Grant, tuple[Drift, ...]], ...]:
    found = app.reading_store.grants.listed(agents=[spec.name])
    drift = app.drift_of_grants(found)
    return tuple((grant, drift[grant.id]) for grant in found)

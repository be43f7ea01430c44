"""`explain`: shows which calls of an agent ask a human, by which rule, and the other limits of a run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agent_md.agents.explained_rules import possible_verdicts
from agent_md.agents.spec import AgentSpec
from agent_md.app import App
from agent_md.cli.agent_notes import triggers_idle, without_server
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import say
from agent_md.cli.views.explanation import ASKING_TOOLS, Explanation, explanation_lines
from agent_md.executions.grants import Grant
from agent_md.executions.states import Drift
from agent_md.serialization import agent_detail, duration_text, grant_json, trigger_json
from agent_md.visible_text import json_line

__all__ = ["explain", "explained", "explanation_json"]

_FIRES = 3


def explain(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)],
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show which calls of an agent ask you, and by which rule.

    Example: agentmd explain cleaner
    """
    with open_app(workspace, drives=True) as app:
        explanation = explained(app, app.registry.get(agent).spec)
    if as_json:
        say(json_line(explanation_json(explanation)))
        return
    say(*explanation_lines(explanation))


def explained(app: App, spec: AgentSpec) -> Explanation:
    """The explanation of an agent as it would run now. Raises AgentFileInvalid if its tools cannot be loaded."""
    from agent_md.tools.facts import facts_of
    from agent_md.tools.module_tool import ModuleTool

    listings = app.preflight.mcp_listings(spec)
    mcp = [tool for listing in listings.values() for tool in listing.tools]
    unusable = [
        f"the MCP server {name} cannot be used: {each.failure}" for name, each in listings.items() if each.failure
    ]
    tools = app.assembly.tools(spec, mcp=mcp)
    calls = [possible for name in sorted(tools) for possible in possible_verdicts(spec, facts_of(tools[name]))]
    origin = app.settings.origins["defaults.confirm_tools"]
    return Explanation(
        spec,
        tuple(calls),
        "built in" if origin == "default" else origin,
        custom=any(isinstance(tool, ModuleTool) for tool in tools.values()),
        problems=(*unusable, *(str(problem) for problem in app.preflight.problems(spec))),
        grants=_grants(app, spec),
        notes=(
            *app.preflight.trigger_problems(spec),
            *app.preflight.notes(spec),
            *without_server(app, spec),
            *triggers_idle(app, [spec]),
        ),
        day_limit=app.settings.max_cost_usd_per_day,
        trigger=app.triggers.state(spec),
        fires=tuple(app.triggers.next_fires(spec, _FIRES)),
    )


def _grants(app: App, spec: AgentSpec) -> tuple[tuple[Grant, tuple[Drift, ...]], ...]:
    found = app.reading_store.grants.listed(agents=[spec.name])
    drift = app.drift_of_grants(found)
    return tuple((grant, drift[grant.id]) for grant in found)


# JSON


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON has it: every tool once for each outcome its calls can have."""
    spec = explanation.spec
    detail = agent_detail(spec)
    names = {possible.tool for possible in explanation.calls}
    kept = ("settings", "history", "trigger_type", "trigger_every", "trigger_cron", "trigger_paths", "trigger_hook")
    return {
        "agent": spec.name,
        "file": spec.source_path,
        "enabled": spec.enabled,
        "model": str(spec.model),
        "agents": list(spec.agents),
        "calls": [
            {
                "tool": possible.tool,
                "decision": str(possible.verdict.decision),
                "source": possible.verdict.source,
                "rule": possible.verdict.rule,
                "place": explanation.place_of(possible),
                "unclear": possible.unclear,
            }
            for possible in explanation.calls
        ],
        "grants": [grant_json(grant, drift) for grant, drift in explanation.grants],
        "ask_themselves": [name for name in ASKING_TOOLS if name in names],
        "confirm_timeout": duration_text(spec.confirm_timeout),
        "on_pending": spec.on_pending,
        **{key: detail[key] for key in kept},
        "workspace_max_cost_usd_per_day": explanation.day_limit,
        "trigger_state": trigger_json(explanation.trigger),
        "next_fires": list(explanation.fires),
        "problems": list(explanation.problems),
        "notes": list(explanation.notes),
    }

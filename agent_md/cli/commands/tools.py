"""`tools`: lists the tools of agents, where they come from, and which calls of them ask."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from agent_md.agents.explanation import Explanation
from agent_md.app.explaining import explained
from agent_md.cli.agent_notes import NO_AGENTS
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption, StaticOption
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.explanation import tool_lines
from agent_md.errors import AgentmdError
from agent_md.serialization.explanation import tools_json
from agent_md.visible_text import json_line

__all__ = ["tools"]


def tools(
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="One agent; without it all of them.", show_default=False)
    ] = None,
    static: StaticOption = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List the tools of agents, and which of their calls ask you.

    Example: agentmd tools cleaner
    """
    found: list[Explanation] = []
    failed = 0
    with open_app(workspace, drives=not static, starts=not static) as app:
        specs = [app.registry.get(agent).spec] if agent is not None else [entry.spec for entry in app.registry.agents]
        for spec in specs:
            if not static:
                app.trust.require(spec)
            try:
                found.append(explained(app, spec, static=static))
            except AgentmdError as error:
                if agent is not None:
                    raise
                note(f"{spec.name}: {error}")
                failed = 1
    if as_json:
        listed: list[dict[str, Any]] = [tools_json(explanation) for explanation in found]
        say(json_line(listed))
    elif not specs:
        say(NO_AGENTS)
    for number, explanation in enumerate([] if as_json else found):
        say(*([""] if number else []), *tool_lines(explanation))
    raise typer.Exit(failed)

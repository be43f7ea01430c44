"""`explain`: shows which calls of an agent ask a human, by which rule, and the other limits of a run."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_md.app.explaining import explained
from agent_md.cli.agent_notes import triggers_idle, without_server
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption, StaticOption
from agent_md.cli.terminal.output import say
from agent_md.cli.views.explanation import explanation_lines
from agent_md.serialization.explanation import explanation_json
from agent_md.visible_text import json_line

__all__ = ["explain"]


def explain(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)],
    static: StaticOption = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show which calls of an agent ask you, and by which rule.

    Example: agentmd explain cleaner
    """
    with open_app(workspace, drives=not static, starts=not static) as app:
        spec = app.registry.get(agent).spec
        if not static:
            app.trust.require(spec)
        notes = [*without_server(app, spec), *triggers_idle(app, [spec])]
        explanation = explained(app, spec, notes, static=static)
    if as_json:
        say(json_line(explanation_json(explanation)))
        return
    say(*explanation_lines(explanation))

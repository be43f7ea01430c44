"""`list`: the agents of a workspace, and the files that cannot be used."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from agent_md.agents.spec import AgentSpec
from agent_md.app import App
from agent_md.cli.agent_notes import NO_AGENTS, abandoned_among, triggers_idle
from agent_md.cli.command_context import WorkspaceOption, open_app, screen
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.tables import AgentRow, agents_table
from agent_md.cli.views.visible_text import json_line
from agent_md.executions.model import Execution, ExecutionId
from agent_md.serialization import agent_shape, invalid_shape

__all__ = ["list_agents"]


def list_agents(as_json: JsonOption = False, workspace: WorkspaceOption = None) -> None:
    """List the agents, and the files that cannot be used.

    Example: agentmd list
    """
    with open_app(workspace) as app:
        registry = app.registry
        found = {entry.spec.name: _last_run(app, entry.spec.name) for entry in registry.agents}
        left = abandoned_among(app, [last for last in found.values() if last is not None])
        coming = {entry.spec.name: app.next_fire(entry.spec) for entry in registry.agents}
        idle = triggers_idle(app, [entry.spec for entry in registry.agents])
        paused = {entry.spec.name for entry in registry.agents if app.paused(entry.spec)}
    rows = [_agent_row(entry.spec, found[entry.spec.name], left, coming, paused) for entry in registry.agents]
    if as_json:
        folder = app.settings.workspace
        agents = [
            agent_shape(row.spec, folder, last_run=row.last.created_at if row.last else None, next_run=row.next_run)
            for row in rows
        ]
        say(json_line({"agents": agents, "invalid": [invalid_shape(i.file, i.error) for i in registry.invalid]}))
        return
    if not (rows or registry.invalid):
        say(NO_AGENTS)
        return
    say(*agents_table(rows, [(item.file, item.error) for item in registry.invalid], screen()))
    for text in idle:
        note(text)


def _agent_row(
    spec: AgentSpec,
    last: Execution | None,
    left: Collection[ExecutionId],
    coming: Mapping[str, float | None],
    paused: Collection[str],
) -> AgentRow:
    died = last is not None and last.id in left
    return AgentRow(spec, next_run=coming[spec.name], last=last, died=died, paused=spec.name in paused)


def _last_run(app: App, agent: str) -> Execution | None:
    found = app.reading_store.executions(agent=agent, limit=1)
    return found[0] if found else None

"""`list`: the agents of a workspace, and the files that cannot be used."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.agents.spec import AgentSpec
from agent_md.app import App
from agent_md.cli.agent_notes import NO_AGENTS, abandoned_among, triggers_idle
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.tables import AgentRow, agents_table
from agent_md.cli.views.triggers import held_text, skipped_text
from agent_md.executions.execution import Execution
from agent_md.executions.firings import TriggerState
from agent_md.executions.ids import ExecutionId
from agent_md.serialization import agent_json, invalid_json
from agent_md.visible_text import json_line, one_line

__all__ = ["list_agents"]


def list_agents(as_json: JsonOption = False, workspace: WorkspaceOption = None) -> None:
    """List the agents, and the files that cannot be used.

    Example: agentmd list
    """
    with open_app(workspace) as app:
        registry = app.registry
        found = {entry.spec.name: _last_run(app, entry.spec.name) for entry in registry.agents}
        left = abandoned_among(app, [last for last in found.values() if last is not None])
        states = {entry.spec.name: app.triggers.state(entry.spec) for entry in registry.agents}
        idle = triggers_idle(app, [entry.spec for entry in registry.agents])
    rows = [_agent_row(entry.spec, found[entry.spec.name], left, states[entry.spec.name]) for entry in registry.agents]
    held = [text for row in rows for text in _trigger_notes(row.spec, states[row.spec.name])]
    if as_json:
        folder = app.settings.workspace
        agents = [
            agent_json(row.spec, folder, last_run=row.last.created_at if row.last else None, next_run=row.next_run)
            for row in rows
        ]
        invalid = [invalid_json(item.file, item.error) for item in registry.invalid]
        say(json_line({"agents": agents, "invalid": invalid, "notes": [*held, *idle]}))
        return
    if not (rows or registry.invalid):
        say(NO_AGENTS)
        return
    say(*agents_table(rows, [(item.file, item.error) for item in registry.invalid]))
    for text in (*held, *idle):
        note(text)


def _agent_row(spec: AgentSpec, last: Execution | None, left: Collection[ExecutionId], state: TriggerState) -> AgentRow:
    died = last is not None and last.id in left
    return AgentRow(spec, next_run=state.next_fire, last=last, died=died, paused=state.pause is not None)


def _trigger_notes(spec: AgentSpec, state: TriggerState) -> list[str]:
    """What holds the agent's trigger, else what was skipped last."""
    text = (held_text(spec, state) if spec.enabled else None) or skipped_text(state)
    return [] if text is None else [f"{one_line(spec.name)}: {text}"]


def _last_run(app: App, agent: str) -> Execution | None:
    found = app.reading_store.executions(agent=agent, limit=1)
    return found[0] if found else None

"""`list`, `logs`, `validate` and `info`: what there is, what happened, what is wrong, what is set."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_md import __version__
from agent_md.app import App
from agent_md.cli.output import say
from agent_md.cli.render import timeline
from agent_md.cli.tables import AgentRow, agents_table, executions_table
from agent_md.cli.text import visible
from agent_md.cli.workspace import WorkspaceOption, open_app, screen
from agent_md.executions.model import Event, Execution, ExecutionId
from agent_md.settings import Settings
from agent_md.shapes import agent_shape, event_shape, execution_shape, invalid_shape

__all__ = ["info", "list_agents", "logs", "validate"]

_POLL_S = 0.05


def list_agents(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, workspace: WorkspaceOption = None
) -> None:
    """List the agents of the workspace, and the files that cannot be used.

    Example: agentmd list
    """
    with open_app(workspace) as app:
        registry = app.registry
        rows = [AgentRow(entry.spec, last=_last_run(app, entry.spec.name)) for entry in registry.agents]
        if as_json:
            agents = [agent_shape(row.spec, last_run=row.last.created_at if row.last else None) for row in rows]
            say(json.dumps({"agents": agents, "invalid": [invalid_shape(i.file, i.error) for i in registry.invalid]}))
            return
        for line in agents_table(rows, [(item.file, item.error) for item in registry.invalid], screen()):
            say(line)


def _last_run(app: App, agent: str) -> Execution | None:
    found = app.reading_store.executions(agent=agent, limit=1)
    return found[0] if found else None


def logs(
    agent: Annotated[str | None, typer.Argument(help="Only this agent's executions.", show_default=False)] = None,
    number: Annotated[int, typer.Option("-n", help="How many, newest first.", min=1)] = 20,
    execution: Annotated[
        int | None, typer.Option("--execution", "-e", help="The whole timeline of one execution.", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as things happen.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show executions, or everything that happened in one.

    Example: agentmd logs -e 42
    """
    with open_app(workspace) as app:
        if execution is not None:
            _timeline(app, ExecutionId(execution), follow=follow, as_json=as_json)
            return
        name = None if agent is None else _known_name(app, agent)
        _executions(app, name, number, as_json=as_json)
        while follow:
            _until_changed(app)
            _executions(app, name, number, as_json=as_json)


def _known_name(app: App, agent: str) -> str:
    """The name as the store has it: also of an agent whose file is gone."""
    if app.reading_store.executions(agent=agent, limit=1):
        return agent
    return app.registry.get(agent).spec.name


def _executions(app: App, agent: str | None, number: int, *, as_json: bool) -> None:
    found = app.reading_store.executions(agent=agent, limit=number)
    if as_json:
        say(json.dumps([execution_shape(item) for item in found]))
        return
    for line in executions_table(found, screen()):
        say(line)


def _timeline(app: App, execution_id: ExecutionId, *, follow: bool, as_json: bool) -> None:
    store = app.reading_store
    execution = store.execution(execution_id)
    events = store.events(execution_id)
    _show_events(app, execution, events, as_json=as_json, lines=follow)
    while follow and not store.execution(execution_id).status.final:
        _until_changed(app)
        new = store.events(execution_id, after=events[-1].seq if events else 0)
        _show_events(app, execution, new, as_json=as_json, lines=True)
        events = new or events


def _show_events(app: App, execution: Execution, events: Sequence[Event], *, as_json: bool, lines: bool) -> None:
    if as_json and not lines:
        say(json.dumps([event_shape(event) for event in events]))
    elif as_json:
        for event in events:
            say(json.dumps(event_shape(event)))
    elif events:
        for line in timeline(execution.agent, events, app.reading_store.requests(execution.id), screen()):
            say(line)


def _until_changed(app: App) -> None:
    version = app.reading_store.version()
    while app.reading_store.version() == version:
        time.sleep(_POLL_S)


def validate(
    agent: Annotated[str | None, typer.Argument(help="Only this agent.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Check agent files, their models and keys, tools and rules; exit 1 if anything is wrong.

    Example: agentmd validate
    """
    with open_app(workspace, drives=True) as app:
        entries = list(app.registry.agents) if agent is None else [app.registry.get(agent)]
        results: list[dict[str, Any]] = [
            {"agent": entry.spec.name, "file": entry.spec.source_path, "errors": app.check(entry.spec)}
            for entry in entries
        ]
        if agent is None:
            results += [{"agent": None, "file": i.file, "errors": [i.error]} for i in app.registry.invalid]
    if as_json:
        say(json.dumps(results))
    for result in results if not as_json else []:
        _say_checked(result)
    if not results and not as_json:
        say("No agents.")
    raise typer.Exit(1 if any(result["errors"] for result in results) else 0)


def _say_checked(result: dict[str, Any]) -> None:
    name = result["agent"] or result["file"]
    mark = "✗" if result["errors"] else "✓"
    say(
        f"{mark} {visible(name, one_line=True)}  {visible(result['file'], one_line=True) if result['agent'] else ''}".rstrip()
    )
    for error in result["errors"]:
        for line in visible(error).splitlines():
            say(f"    {line}")


def _value(settings: Settings, key: str) -> Any:
    """A setting by its dotted key as JSON; keys of the API are not shown."""
    if key == "server.api_key":
        return None if settings.server.api_key is None else "(set)"
    if key in ("defaults.provider", "defaults.model"):
        return getattr(settings.defaults, key.removeprefix("defaults."))
    value: Any = settings
    for name in key.split("."):
        if not hasattr(value, name) and hasattr(value, "settings"):
            value = value.settings
        value = getattr(value, name)
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value


def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, workspace: WorkspaceOption = None
) -> None:
    """Show the configuration in effect, and where each value came from.

    Example: agentmd info
    """
    with open_app(workspace) as app:
        values = [(key, _value(app.settings, key), origin) for key, origin in sorted(app.settings.origins.items())]
        data: dict[str, Any] = {
            "version": __version__,
            "workspace": str(app.settings.workspace),
            "agents": len(app.registry.agents),
            "invalid": len(app.registry.invalid),
        }
    if as_json:
        say(json.dumps({**data, "settings": {key: {"value": value, "from": origin} for key, value, origin in values}}))
        return
    say(f"agentmd {__version__}")
    say(
        f"workspace {visible(data['workspace'], one_line=True)}  ({data['agents']} agents, {data['invalid']} invalid files)"
    )
    say("")
    width = max(len(key) for key, _, _ in values)
    shown = [(key, visible(str(value), one_line=True), origin) for key, value, origin in values]
    value_width = min(40, max(len(value) for _, value, _ in shown))
    for key, value, origin in shown:
        say(f"{key:<{width}}  {value:<{value_width}}  {visible(origin, one_line=True)}")

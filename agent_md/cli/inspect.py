"""`list`, `logs`, `validate` and `info`: what there is, what happened, what is wrong, what is set."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_md import __version__
from agent_md.agents.registry import AgentEntry, InvalidFile, Registry
from agent_md.agents.spec import AgentSpec
from agent_md.app import App
from agent_md.cli.choices import JsonOption, execution_number
from agent_md.cli.columns import columns
from agent_md.cli.notifications import without_server
from agent_md.cli.output import note, say
from agent_md.cli.tables import AgentRow, agents_table, executions_table, refusals_table
from agent_md.cli.text import counted, json_line, one_line, visible
from agent_md.cli.timeline import Timeline
from agent_md.cli.triggering import triggers_idle
from agent_md.cli.workspace import WorkspaceOption, each_change, open_app, screen
from agent_md.errors import AgentFileInvalid, AgentmdError, ConfigInvalid, UsageError
from agent_md.executions.model import Event, EventType, Execution, ExecutionId, Status
from agent_md.executions.spending import Refusal
from agent_md.settings import Settings
from agent_md.shapes import agent_shape, event_shape, execution_shape, invalid_shape, refusal_shape
from agent_md.workspace import NotAFolder, NoWorkspace

__all__ = ["info", "list_agents", "logs", "validate"]

_MOST = 2**31
_RECENT = 3
"""Refusals that stand below the executions."""
_FIRES = 5
"""So many fires of a schedule are shown when an agent is checked."""
_NO_AGENTS = "No agents yet: `agentmd new NAME` makes one."


def list_agents(as_json: JsonOption = False, workspace: WorkspaceOption = None) -> None:
    """List the agents, and the files that cannot be used.

    Example: agentmd list
    """
    with open_app(workspace) as app:
        registry = app.registry
        found = {entry.spec.name: _last_run(app, entry.spec.name) for entry in registry.agents}
        left = _left(app, [last for last in found.values() if last is not None])
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
        say(_NO_AGENTS)
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


def logs(
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Only this agent's executions.", show_default=False)
    ] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", help="How many, the newest.", min=1)] = 20,
    execution: Annotated[
        int | None,
        typer.Option(
            "--execution",
            "-e",
            metavar="ID",
            help="The whole timeline of this execution.",
            show_default=False,
            parser=execution_number,
        ),
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Only those with calls that may have run, and that nobody has settled.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as things happen; with -e until the execution ends.")
    ] = False,
    refused: Annotated[
        bool, typer.Option("--refused", help="Runs that were refused and not created, instead of executions.")
    ] = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show executions, or everything that happened in one.

    Example: agentmd logs -e 42
    """
    _check_one_kind(execution, agent, unknown=unknown, refused=refused)
    if execution is not None:
        _timeline(workspace, ExecutionId(execution), follow=follow, as_json=as_json)
        return
    news = _News()
    for app in each_change(workspace, follow=follow):
        name = None if agent is None else _known_name(app, agent)
        agents = None if name is None else (name,)
        if refused:
            _refused(app.reading_store.refusals(agents=agents, limit=min(number, _MOST)), as_json=as_json)
            continue
        found = app.reading_store.executions(agent=name, unknown=unknown or None, limit=min(number, _MOST))
        if as_json:
            say(json_line([execution_shape(item) for item in found]))
        elif unknown and not found:
            say("No call may have run without anybody knowing.")
        else:
            news.say(found, _left(app, found))
            if not unknown:
                since = found[-1].created_at if len(found) >= number else 0.0
                news.say_refused(app.reading_store.refusals(agents=agents, limit=_RECENT), since)


def _check_one_kind(execution: int | None, agent: str | None, *, unknown: bool, refused: bool) -> None:
    if execution is not None and agent is not None:
        raise UsageError(f"-e {execution} names one execution, {agent!r} an agent: give one of them")
    if execution is not None and refused:
        raise UsageError(f"-e {execution} names one execution, and --refused those that never were: give one of them")
    if execution is not None and unknown:
        raise UsageError(f"-e {execution} names one execution, and --unknown finds them: give one of them")
    if refused and unknown:
        raise UsageError("--refused are runs that never were, --unknown executions with calls: give one of them")


class _News:
    """What the list of executions shows: all of it at first, then only what is new or has changed."""

    def __init__(self) -> None:
        self._shown: dict[ExecutionId, tuple[Execution, bool]] | None = None
        self._refused: list[Refusal] = []

    def say(self, found: Sequence[Execution], left: Collection[ExecutionId]) -> None:
        """Shows executions; `left` are those whose process died."""
        before, now = self._shown, {execution.id: (execution, execution.id in left) for execution in found}
        only = [number for number, state in now.items() if before.get(number) != state] if before else None
        if now != before and (only is None or only):
            say(*executions_table(found, screen(), left=left, only=only))
        self._shown = now

    def say_refused(self, found: Sequence[Refusal], since: float) -> None:
        """Shows the refusals since then, if there are new ones."""
        recent = [item for item in found if item.at >= since]
        if any(item not in self._refused for item in recent):
            say("", "Refused, and not run (all: agentmd logs --refused):", *refusals_table(recent, screen()))
        self._refused = recent


def _refused(found: Sequence[Refusal], *, as_json: bool) -> None:
    if as_json:
        say(json_line([refusal_shape(item) for item in found]))
    else:
        say(*(refusals_table(found, screen()) if found else ["Nothing was refused."]))


def _known_name(app: App, agent: str) -> str:
    """The name as the store has it: also of an agent whose file is gone."""
    if app.reading_store.executions(agent=agent, limit=1):
        return agent
    return app.registry.get(agent).spec.name


def _left(app: App, executions: Sequence[Execution]) -> set[ExecutionId]:
    """Those of them whose process died while it drove them."""
    running = {execution.id for execution in executions if execution.status is Status.RUNNING}
    return running & {execution.id for execution in app.reading_store.abandoned()} if running else set()


def _timeline(workspace: Path | None, execution_id: ExecutionId, *, follow: bool, as_json: bool) -> None:
    shown = 0
    timeline: Timeline | None = None
    for app in each_change(workspace, follow=follow):
        store = app.reading_store
        execution = store.execution(execution_id)
        events = store.events(execution_id, after=shown)
        shown = events[-1].seq if events else shown
        if events and events[-1].type is EventType.COMPLETE:  # it may have ended between the two
            execution = store.execution(execution_id)
        if as_json:
            _say_events(events, lines=follow)
        else:
            timeline = timeline or Timeline(execution.agent, screen(), session=execution.session_id)
            requests = store.requests(execution_id)
            lines = timeline.lines(events, requests)
            if execution.status.final or not follow:
                died = bool(_left(app, [execution]))
                lines += timeline.standing(execution, requests, now=time.time(), died=died)
                lines += timeline.unknown(execution, store.calls(execution_id))
            say(*lines)
        if execution.status.final:
            return


def _say_events(events: Sequence[Event], *, lines: bool) -> None:
    shapes = [event_shape(event) for event in events]
    say(*map(json_line, shapes if lines else [shapes]))


def validate(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only this agent.", show_default=False)] = None,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Check agent files, models, keys, tools and rules. Exit code 1 if anything is wrong.

    Example: agentmd validate
    """
    try:
        results = _checked(workspace, agent)
    except (NoWorkspace, NotAFolder):
        raise
    except ConfigInvalid as error:  # a file is wrong, not the command
        raise AgentmdError(str(error)) from None
    if as_json:
        say(json_line(results))
    elif results:
        for result in results:
            _say_checked(result)
    else:
        say(_NO_AGENTS)
    raise typer.Exit(1 if any(result["errors"] for result in results) else 0)


def _checked(workspace: Path | None, agent: str | None) -> list[dict[str, Any]]:
    """What is wrong with each file, or with those of this agent alone."""
    with open_app(workspace, drives=True) as app:
        entries, invalid = _chosen(app.registry, agent)
        results: list[dict[str, Any]] = [
            {
                "agent": entry.spec.name,
                "file": entry.spec.source_path,
                "errors": app.checks.check(entry.spec),
                "notes": [
                    *app.checks.notes(entry.spec),
                    *without_server(app, entry.spec),
                    *triggers_idle(app, [entry.spec]),
                ],
                "fires": app.next_fires(entry.spec, _FIRES),
            }
            for entry in entries
        ]
        return results + [
            {"agent": None, "file": i.file, "errors": [i.error], "notes": [], "fires": []} for i in invalid
        ]


def _chosen(registry: Registry, agent: str | None) -> tuple[Sequence[AgentEntry], Sequence[InvalidFile]]:
    """The agents to check and the files that cannot be used. Raises UnknownAgent."""
    if agent is None:
        return registry.agents, registry.invalid
    try:
        return [registry.get(agent)], ()
    except AgentFileInvalid:
        return (), registry.invalid_named(agent)


def _say_checked(result: dict[str, Any]) -> None:
    name = result["agent"] or result["file"]
    mark = "✗" if result["errors"] else "✓"
    say(f"{mark} {one_line(name)}  {one_line(result['file']) if result['agent'] else ''}".rstrip())
    for text in (*result["errors"], *(f"note: {text}" for text in result["notes"])):
        say(*(f"    {line}" for line in visible(text).splitlines()))
    if result["fires"]:
        say(
            *(
                f"    {head:<11} {at}"
                for head, at in zip(("next fires:", *[""] * _FIRES), result["fires"], strict=False)
            )
        )


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


def info(as_json: JsonOption = False, workspace: WorkspaceOption = None) -> None:
    """Show the settings in effect, and where each came from.

    Example: agentmd info
    """
    with open_app(workspace) as app:
        settings, registry = app.settings, app.registry
    origins = dict(sorted(settings.origins.items()))
    values = {key: _value(settings, key) for key in origins}
    counts = {"agents": len(registry.agents), "invalid": len(registry.invalid)}
    if as_json:
        shown = {key: {"value": values[key], "from": origins[key]} for key in values}
        say(json_line({"version": __version__, "workspace": str(settings.workspace), **counts, "settings": shown}))
        return
    say(f"agentmd {__version__}")
    say(f"workspace {one_line(str(settings.workspace))} ({origins.pop('workspace')})")
    say(f"{counted(counts['agents'], 'agent')}, {counted(counts['invalid'], 'file')} that cannot be used")
    say("")
    rows = [(key, _shown(values[key], settings.workspace), origins[key]) for key in origins]
    table = [[one_line(cell) for cell in row] for row in rows]
    say(*columns(("Setting", "Value", "From"), table, screen(), yielding=(1, 2)))


def _shown(value: Any, workspace: Path) -> str:
    """A setting as a config file has it: paths relative to the workspace, no value as `none`."""
    if isinstance(value, list):
        return f"[{', '.join(_shown(item, workspace) for item in value)}]"
    if isinstance(value, str):
        return value.removeprefix(f"{workspace}/")
    return "none" if value is None else json.dumps(value)

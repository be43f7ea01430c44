"""`checkpoint`: shows the size of checkpoints, and removes old ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.agents.names import name_key
from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.table_layout import Listing
from agent_md.errors import UsageError
from agent_md.runner.retention_sweep import Purge, ThreadStats
from agent_md.visible_text import counted, json_line, one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["checkpoint", "size_text", "stats_lines"]

_UNITS = ("B", "kB", "MB", "GB", "TB")
_STEP = 1000


def checkpoint(
    stats: Annotated[bool, typer.Option("--stats", help="Show them; the default.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Remove old ones that are not needed.")] = False,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only those of one agent.", show_default=False)
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="With --purge: also recent ones, the latest, and those of waiting executions."),
    ] = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show the disk space of checkpoints, and remove old ones.

    Example: agentmd checkpoint --purge --agent cleaner
    """
    if stats and purge:
        raise UsageError("--stats shows and --purge removes; give one of them")
    if force and not purge:
        raise UsageError("--force goes with --purge; nothing was removed")
    with open_app(workspace) as app:
        names = None if agent is None else _names(app, agent)
        if purge:
            _purge(app, names, force=force, as_json=as_json)
        else:
            _stats(app, names, as_json=as_json)


def _names(app: App, agent: str) -> list[str]:
    """The names under which the agent has run. Raises UnknownAgent for one that never was."""
    known = [name for name in app.reading_store.agent_names() if name_key(name) == name_key(agent)]
    return known or [app.registry.get(agent).spec.name]


def _stats(app: App, names: Sequence[str] | None, *, as_json: bool) -> None:
    found = app.retention.threads().stats(names)
    if as_json:
        agents = [{"agent": row.agent, "threads": row.threads, "bytes": row.bytes} for row in found.agents]
        say(json_line({**_file(app), "bytes": found.bytes, "threads": found.threads, "agents": agents}))
        return
    say(*stats_lines(found, one_line(str(app.settings.checkpoint_database))))


def stats_lines(found: ThreadStats, file: str) -> list[RenderableType]:
    """A row for each agent, and what the file takes; threads of no execution stand in a row without a name."""
    total = f"{file}: {counted(found.threads, 'thread')}, {size_text(found.bytes)} on the disk"
    rows = [
        (one_line(row.agent) if row.agent is not None else "(no execution)", f"{row.threads:,}", size_text(row.bytes))
        for row in found.agents
    ]
    return [*([Listing(("Agent", "Threads", "Size"), rows, yielding=(0,))] if rows else ()), total]


def _purge(app: App, names: Sequence[str] | None, *, force: bool, as_json: bool) -> None:
    days = app.settings.defaults.checkpoint_retention_days
    done = app.retention.threads().purge(days, agents=names, force=force)
    if days is None and not force:
        note("defaults.checkpoint_retention_days is none: no thread of an execution is ever old. --force removes all")
    if done.driven:
        ids = ", ".join(map(str, done.driven))
        note(f"left, because they are being driven: {ids}; cancel them, or try again later")
    if as_json:
        say(json_line({**_file(app), **_purge_json(done)}))
        return
    say(
        f"Removed {counted(done.removed, 'thread')}, kept {done.kept:,}. {one_line(_file(app)['file'])}: "
        f"{size_text(done.bytes_before)} before, {size_text(done.bytes_after)} now."
    )


def _purge_json(done: Purge) -> dict[str, object]:
    return {
        "removed": done.removed,
        "kept": done.kept,
        "driven": list(done.driven),
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }


def _file(app: App) -> dict[str, str]:
    return {"file": str(app.settings.checkpoint_database)}


def size_text(count: int) -> str:
    """Bytes as people read them: `0 B`, `999 B`, `1.2 kB`, `35 MB`."""
    size = float(count)
    for unit in _UNITS:
        if size < _STEP or unit == _UNITS[-1]:
            break
        size /= _STEP
    return f"{size:.1f} {unit}" if unit != "B" and size < 10 else f"{size:,.0f} {unit}"

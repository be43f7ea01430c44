"""`schedule`: shows when agents fire next, and pauses them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.agents.spec import AgentSpec
from agent_md.app import App
from agent_md.cli.agent_notes import triggers_idle
from agent_md.cli.command_context import WorkspaceOption, login, open_app
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.table_layout import Listing
from agent_md.cli.views.times import date_time
from agent_md.errors import UsageError
from agent_md.executions.days import instant_of
from agent_md.executions.firings import FiringState, Pause
from agent_md.serialization import firing_json
from agent_md.visible_text import json_line, one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["fires_table", "schedule"]

_PAUSE, _RESUME = "pause", "resume"


def schedule(
    what: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Whose; or pause, or resume.", show_default=False)
    ] = None,
    agent: Annotated[
        str | None, typer.Argument(metavar="WHOSE", help="With pause and resume: only this agent.", show_default=False)
    ] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", help="How many fires.", min=1, max=10_000)] = 20,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Fires after this time (ISO 8601); default: now."),
    ] = None,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="The last skipped fires, newest first, with reasons.")
    ] = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show when agents fire next; pause and resume them.

    Example: agentmd schedule cleaner -n 5
    """
    with open_app(workspace) as app:
        if what in (_PAUSE, _RESUME):
            _change(app, what, agent)
            return
        if agent in (_PAUSE, _RESUME):
            raise UsageError(f"the agent comes last; write agentmd schedule {agent} {what}")
        if agent is not None:
            raise UsageError(f"{what!r} is nothing that can be done to a schedule; there are pause and resume")
        if skipped and begin is not None:
            raise UsageError("--from is about fires to come, --skipped about those that were: give one of them")
        if skipped:
            _show_skipped(app, what, number, as_json=as_json)
        else:
            _show(app, what, number, begin, as_json=as_json)


def _change(app: App, what: str, agent: str | None) -> None:
    name = None if agent is None else app.registry.get(agent).spec.name
    whose = "All triggers" if name is None else f"The triggers of {one_line(name)}"
    if what == _PAUSE:
        app.store.firings.pause(name, login())
        say(f"{whose} are paused. `agentmd schedule resume{'' if name is None else ' ' + one_line(name)}` ends it")
        return
    app.store.firings.resume(name)
    left = [pause for pause in app.store.firings.pauses() if pause.agent is None]
    if left:
        say(
            f"The pause of {one_line(str(name))} is ended, but all triggers are still paused, by {one_line(left[0].by)}; "
            "`agentmd schedule resume` ends that"
        )
        return
    say(f"{whose} are not paused any more.")


def _show(app: App, name: str | None, number: int, begin: str | None, *, as_json: bool) -> None:
    from agent_md.triggers.fire_times import at_text, zone_of
    from agent_md.triggers.upcoming import coming

    registry = app.registry
    specs = [entry.spec for entry in registry.agents] if name is None else [registry.get(name).spec]
    scheduled = [spec for spec in specs if spec.trigger.type == "schedule"]
    after = time.time()
    if begin is not None:
        try:
            after = instant_of(begin, datetime.now().astimezone().tzinfo)
        except ValueError as error:
            raise UsageError(f"--from: {error}") from None
    firings = app.reading_store.firings
    found = coming(firings, scheduled, after, number)
    zones = {spec.name: zone_of(spec.trigger) for spec in scheduled}
    rows = [(fire.agent, at_text(fire.at, zones[fire.agent])) for fire in found]
    if as_json:
        say(json_line([{"agent": agent, "at": at} for agent, at in rows]))
    else:
        say(fires_table(rows, _held(scheduled, firings.pauses())))
        _tell_unbegun(app, scheduled)
    for text in triggers_idle(app, scheduled):
        note(text)


def _show_skipped(app: App, agent: str | None, number: int, *, as_json: bool) -> None:
    found = app.reading_store.firings.listed(agent=agent, states=[FiringState.SKIPPED], limit=number)
    if as_json:
        say(json_line([firing_json(firing) for firing in found]))
        return
    if not found:
        say("Nothing was skipped.")
        return
    rows = [
        (date_time(firing.due_at), one_line(firing.agent), str(firing.trigger), one_line(firing.reason or ""))
        for firing in found
    ]
    say(Listing(("Due", "Agent", "Trigger", "Skipped because"), rows, yielding=(3, 1)))


def fires_table(rows: Sequence[tuple[str, str]], held: Mapping[str, str]) -> RenderableType:
    """The fires as a table; `held` says why an agent will not start at them."""
    if not rows:
        return "No agent has a schedule."
    if not held:
        return Listing(("At", "Agent"), [(at, one_line(agent)) for agent, at in rows], yielding=(1,))
    table = [(at, one_line(agent), held.get(agent, "")) for agent, at in rows]
    return Listing(("At", "Agent", "Note"), table, yielding=(2, 1))


def _held(specs: Sequence[AgentSpec], pauses: Sequence[Pause]) -> dict[str, str]:
    from agent_md.triggers.pauses import paused_by

    held = {}
    for spec in specs:
        pause = paused_by(pauses, spec.name)
        if not spec.enabled:
            held[spec.name] = "disabled: it will be skipped"
        elif pause is not None:
            held[spec.name] = f"paused by {one_line(pause.by)}: it will be skipped"
    return held


def _tell_unbegun(app: App, specs: Sequence[AgentSpec]) -> None:
    from agent_md.triggers.schedules import has_begun

    names = [spec.name for spec in specs if not has_begun(app.reading_store.firings, spec)]
    if names:
        listed = ", ".join(map(one_line, names))
        note(f"the intervals of {listed} count from when a server first sees them; shown as if that were now")

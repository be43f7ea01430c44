"""`logs`: executions, refused runs, and the timeline of one execution."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from agent_md.app import App
from agent_md.cli.agent_notes import abandoned_among
from agent_md.cli.command_context import WorkspaceOption, each_change
from agent_md.cli.commands.log_costs import check_options, say_costs
from agent_md.cli.option_values import JsonOption, execution_number, since
from agent_md.cli.terminal.output import say
from agent_md.cli.views.family_timeline import FamilyTimeline
from agent_md.cli.views.tables import executions_table, refusals_table
from agent_md.errors import UsageError
from agent_md.executions.costs import CostBy
from agent_md.executions.execution import Event, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.spending import Refusal
from agent_md.executions.states import EventType, Status
from agent_md.serialization import event_json, execution_json, refusal_json
from agent_md.visible_text import json_line

__all__ = ["logs"]

_MOST = 2**31

_RECENT = 3
"""Refusals that stand below the executions."""


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
    statuses: Annotated[
        list[Status] | None,
        typer.Option("--status", help="Only those with this status; repeat it for several.", show_default=False),
    ] = None,
    containing: Annotated[
        str | None,
        typer.Option(
            "--grep",
            metavar="TEXT",
            help="Only those with this text, in any case: in a message, a call, an answer, an error.",
            show_default=False,
        ),
    ] = None,
    begun: Annotated[
        float | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only those since then: 30m, 2h, 7d, or a time in ISO 8601.",
            show_default=False,
            parser=since,
        ),
    ] = None,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Only those with calls that may have run and are not settled.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new events; with -e until the execution ends.")
    ] = False,
    refused: Annotated[bool, typer.Option("--refused", help="Show refused runs instead of executions.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Show the cost of model calls instead of executions.")] = False,
    by: Annotated[
        CostBy | None,
        typer.Option("--by", help="With --cost: sums by day (the default), agent or model.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show executions, or all events of one.

    Example: agentmd logs -e 42
    """
    filters = {"--status": statuses, "--grep": containing, "--unknown": unknown or None}
    others = {"-e": execution, "--refused": refused or None, "-f": follow or None, **filters}
    check_options(by, cost=cost, others=others)
    _check_one_kind(execution, agent, {**filters, "--since": begun}, refused=refused)
    if execution is not None:
        _timeline(workspace, ExecutionId(execution), follow=follow, as_json=as_json)
        return
    news = _News()
    for app in each_change(workspace, follow=follow):
        name = None if agent is None else _known_name(app, agent)
        agents = None if name is None else (name,)
        if cost:
            say_costs(app, name, by or CostBy.DAY, since=begun, limit=min(number, _MOST), as_json=as_json)
            continue
        if refused:
            recent = app.reading_store.refusals(agents=agents, limit=min(number, _MOST))
            _refused([refusal for refusal in recent if refusal.at >= (begun or 0.0)], as_json=as_json)
            continue
        found = app.reading_store.executions(
            agent=name,
            statuses=statuses or (),
            unknown=unknown or None,
            since=begun,
            containing=containing,
            limit=min(number, _MOST),
        )
        chosen = begun is not None or any(value is not None for value in filters.values())
        if as_json:
            say(json_line([execution_json(item) for item in found]))
        elif unknown and not found:
            say("No call may have run without anybody knowing.")
        elif chosen:
            news.say(found, abandoned_among(app, found), nothing="No such executions.")
        else:
            news.say(found, abandoned_among(app, found))
            oldest = found[-1].created_at if len(found) >= number else 0.0
            news.say_refused(app.reading_store.refusals(agents=agents, limit=_RECENT), oldest)


def _check_one_kind(execution: int | None, agent: str | None, filters: Mapping[str, object], *, refused: bool) -> None:
    given = [name for name, value in filters.items() if value is not None]
    if execution is not None and agent is not None:
        raise UsageError(f"-e {execution} names one execution, {agent!r} an agent: give one of them")
    if execution is not None and refused:
        raise UsageError(f"-e {execution} names one execution, and --refused those that never were: give one of them")
    if execution is not None and given:
        raise UsageError(f"-e {execution} names one execution, and {given[0]} finds them: give one of them")
    wrong = [name for name in given if name != "--since"]
    if refused and wrong:
        raise UsageError(f"--refused are runs that never were, and {wrong[0]} is of executions: give one of them")


class _News:
    """The rows of the list of executions: all at first, then only those that are new or have changed."""

    def __init__(self) -> None:
        self._shown: dict[ExecutionId, tuple[Execution, bool]] | None = None
        self._refused: list[Refusal] = []

    def say(self, found: Sequence[Execution], left: Collection[ExecutionId], *, nothing: str = "") -> None:
        """Shows executions, or says `nothing` if there are none; `left` are those whose process died."""
        before, now = self._shown, {execution.id: (execution, execution.id in left) for execution in found}
        only = [number for number, state in now.items() if before.get(number) != state] if before else None
        if now != before and (only is None or only):
            say(*([nothing] if nothing and not found else executions_table(found, left=left, only=only)))
        self._shown = now

    def say_refused(self, found: Sequence[Refusal], since: float) -> None:
        """Shows the refusals since then, if there are new ones."""
        recent = [item for item in found if item.at >= since]
        if any(item not in self._refused for item in recent):
            say("", "Refused, and not run (all: agentmd logs --refused):", refusals_table(recent))
        self._refused = recent


def _refused(found: Sequence[Refusal], *, as_json: bool) -> None:
    if as_json:
        say(json_line([refusal_json(item) for item in found]))
    else:
        say(refusals_table(found) if found else "Nothing was refused.")


def _known_name(app: App, agent: str) -> str:
    """The name as the store has it: also of an agent whose file is gone."""
    if app.reading_store.executions(agent=agent, limit=1):
        return agent
    return app.registry.get(agent).spec.name


def _timeline(workspace: Path | None, execution_id: ExecutionId, *, follow: bool, as_json: bool) -> None:
    shown = 0
    timeline = FamilyTimeline()
    for app in each_change(workspace, follow=follow):
        store = app.reading_store
        execution = store.execution(execution_id)
        family = [execution] if as_json else store.family(execution_id)
        events = sorted(
            (event for member in family for event in store.events(member.id, after=shown)), key=lambda event: event.seq
        )
        shown = events[-1].seq if events else shown
        if any(event.type is EventType.COMPLETE for event in events):  # it may have ended between the two
            execution = store.execution(execution_id)
        if as_json:
            _say_events(events, lines=follow)
        else:
            requests = store.requests(execution_id, family=True)
            lines = timeline.lines(family, events, requests)
            if execution.status.final or not follow:
                family = store.family(execution_id)
                lines += timeline.standing(family, requests, now=time.time(), died=abandoned_among(app, family))
                for member in family:
                    lines += timeline.timeline(member.id).unknown(member, store.calls(member.id))
            say(*lines)
        if execution.status.final:
            return


def _say_events(events: Sequence[Event], *, lines: bool) -> None:
    shapes = [event_json(event) for event in events]
    say(*map(json_line, shapes if lines else [shapes]))

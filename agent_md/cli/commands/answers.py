"""`answers`: lists the decisions of requests of all executions."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_md.agents.names import name_key
from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption, execution_number, since
from agent_md.cli.terminal.output import say
from agent_md.cli.views.answers_table import answers_table
from agent_md.executions.given_answers import AnswerFilter
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Outcome
from agent_md.serialization import given_answer_json
from agent_md.visible_text import json_line

__all__ = ["answers"]

_MOST = 2**31


def answers(
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Only answers to this agent.", show_default=False)
    ] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", help="How many, the newest.", min=1)] = 20,
    execution: Annotated[
        int | None,
        typer.Option(
            "--execution",
            "-e",
            metavar="ID",
            help="Only those of this execution.",
            show_default=False,
            parser=execution_number,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="WHO", help="Only those of a person: cli:ann, or ann for any channel.", show_default=False
        ),
    ] = None,
    outcomes: Annotated[
        list[Outcome] | None,
        typer.Option("--outcome", help="Only those with this outcome; repeat it for several.", show_default=False),
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
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List how questions were answered: who, when, what.

    Example: agentmd answers --by ann --since 7d
    """
    with open_app(workspace, lenient=True) as app:
        wanted = AnswerFilter(
            agents=None if agent is None else _known_as(app, agent),
            execution_id=None if execution is None else ExecutionId(execution),
            outcomes=outcomes or (),
            by=by,
            since=begun,
        )
        found = app.reading_store.given_answers(wanted, limit=min(number, _MOST))
    if as_json:
        say(json_line([given_answer_json(given) for given in found]))
    else:
        say(answers_table(found))


def _known_as(app: App, agent: str) -> list[str]:
    """The names under which it answered; also of an agent whose file is gone, or whose executions were removed."""
    names = {given.agent for given in app.reading_store.given_answers(AnswerFilter())}
    known = [name for name in names if name_key(name) == name_key(agent)]
    return known or [app.registry.get(agent).spec.name]

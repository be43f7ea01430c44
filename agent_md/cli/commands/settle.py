"""`settle`: records whether a call that may have run did run."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, login, open_app
from agent_md.cli.option_values import JsonOption, execution_number
from agent_md.cli.terminal.output import say
from agent_md.errors import UsageError
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import POSITION, Position
from agent_md.executions.settlement_note import checked_note
from agent_md.serialization import unknown_call_json
from agent_md.visible_text import json_line, one_line

__all__ = ["settle"]


def _position(text: str) -> Position:
    if re.fullmatch(POSITION, text) is None:
        raise typer.BadParameter(
            f"{text!r} is not the position of a call, such as 0.1; `agentmd logs -e ID` shows them"
        )
    return Position.parse(text)


def settle(
    execution: Annotated[
        int, typer.Argument(metavar="ID", help="Its number.", show_default=False, parser=execution_number)
    ],
    position: Annotated[
        Position,
        typer.Argument(
            metavar="POSITION",
            help="Which call, as `logs -e ID` shows it: 0.1 is the second call of the first message.",
            show_default=False,
            parser=_position,
        ),
    ],
    ran: Annotated[bool, typer.Option("--ran", help="It did run.")] = False,
    not_run: Annotated[bool, typer.Option("--not-run", help="It did not run.")] = False,
    note: Annotated[str | None, typer.Option(metavar="TEXT", help="How you know.", show_default=False)] = None,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Record whether a call that may have run did run. It is stored beside the call, and nothing runs because of it.

    Example: agentmd settle 42 0.1 --ran --note "the invoice is there"
    """
    if ran == not_run:
        raise UsageError("say what became of the call: --ran or --not-run, one of them")
    with open_app(workspace) as app:
        _settle(app, ExecutionId(execution), position, ran=ran, note=note, as_json=as_json)


def _settle(app: App, execution_id: ExecutionId, at: Position, *, ran: bool, note: str | None, as_json: bool) -> None:
    app.find_execution(execution_id)
    store = app.store
    settled = store.settle_call(execution_id, at, ran=ran, note=checked_note(note), by=login())
    call = store.call(execution_id, at)
    assert call is not None  # it was settled
    if as_json:
        say(json_line(unknown_call_json(call)))
        return
    how = "ran" if settled.ran else "did not run"
    say(f"Call {at} of execution {execution_id} ({one_line(call.tool)}) {how}, says {one_line(settled.settled_by)}.")

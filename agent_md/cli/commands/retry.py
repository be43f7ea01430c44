"""`retry`: starts a failed execution again."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_md.cli.agent_notes import note_earlier_messages
from agent_md.cli.command_context import WorkspaceOption, open_app, terminal
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.run_output import choose_output
from agent_md.cli.option_values import LinesOption, OnAsk, OnAskOption, QuietOption, execution_number
from agent_md.cli.terminal.output import remark
from agent_md.executions.execution import Claim
from agent_md.executions.ids import ExecutionId
from agent_md.runner.retrying import calls_that_ran

__all__ = ["retry"]


def retry(
    execution: Annotated[
        int,
        typer.Argument(
            metavar="ID", help="The number of the failed execution.", show_default=False, parser=execution_number
        ),
    ],
    quiet: QuietOption = False,
    as_json: LinesOption = False,
    on_ask: OnAskOption = OnAsk.WAIT,
    workspace: WorkspaceOption = None,
) -> None:
    """Start a failed execution again, with the same message. Its effects are not undone.

    Example: agentmd retry 42"""
    from agent_md.cli.drive.drive_or_follow import drive_or_follow

    with open_app(workspace, drives=True, starts=True) as app:
        failed = app.find_execution(ExecutionId(execution))
        created = app.starter.retry(failed)
        output = choose_output(created, quiet=quiet, as_json=as_json)
        for what, calls in zip(("ran", "may have run"), calls_that_ran(app.store, failed), strict=True):
            if calls:
                remark(f"note: {', '.join(calls)} of execution {failed.id} {what}")
        if not quiet:
            note_earlier_messages(app, created)
        follower = EventFollower(app, created.id, output, new=str(app.spec_of(created).model))
        claim = Claim(created.id, app.worker, created.epoch)
        code = drive_or_follow(app, follower, claim, terminal(asks=not as_json), on_ask)
        follower.end()
    raise typer.Exit(code)

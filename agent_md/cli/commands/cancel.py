"""`cancel`: aborts an execution."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.cli.command_context import WorkspaceOption, login, open_app
from agent_md.cli.drive.silent_observer import Silent
from agent_md.cli.option_values import execution_number
from agent_md.cli.terminal.output import say
from agent_md.executions.model import ExecutionId

if TYPE_CHECKING:
    pass

__all__ = ["cancel"]

_CANCEL_PATIENCE_S = 2.0

_POLL_S = 0.05


def cancel(
    execution: Annotated[
        int, typer.Argument(metavar="ID", help="Its number.", show_default=False, parser=execution_number)
    ],
    workspace: WorkspaceOption = None,
) -> None:
    """Abort an execution that waits or runs. Its open questions are withdrawn.

    Example: agentmd cancel 42
    """
    with open_app(workspace, drives=True, lenient=True) as app:
        asked = app.existing(ExecutionId(execution))
        current = app.store.request_cancel(asked.id, login())
        if current.status.final:
            say(f"Execution {execution} had ended before: {current.status}.")
            return
        claim = app.store.claim_to_cancel(current.id, app.worker)
        if claim is not None:
            import asyncio

            app.worked_on.add(current.id)
            asyncio.run(app.runner().advance(claim, Silent()))
        deadline = time.monotonic() + _CANCEL_PATIENCE_S
        while not app.store.execution(current.id).status.final and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        ended = app.store.execution(current.id)
        if ended.status.final:
            say(f"Execution {execution} is {ended.status}.")
        else:
            say(f"The process that drives execution {execution} was told to cancel it.")

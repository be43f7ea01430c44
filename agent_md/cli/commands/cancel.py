"""`cancel`: aborts an execution."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_md.cli.command_context import WorkspaceOption, login, open_app
from agent_md.cli.option_values import execution_number
from agent_md.cli.terminal.output import say
from agent_md.executions.ids import ExecutionId

__all__ = ["cancel"]


def cancel(
    execution: Annotated[
        int, typer.Argument(metavar="ID", help="Its number.", show_default=False, parser=execution_number)
    ],
    workspace: WorkspaceOption = None,
) -> None:
    """Abort an execution that waits or runs. Its open questions are withdrawn.

    Example: agentmd cancel 42
    """
    from agent_md.cli.drive.closing import close_cancelled

    with open_app(workspace, drives=True, lenient=True) as app:
        asked = app.find_execution(ExecutionId(execution))
        current = app.store.request_cancel(asked.id, login())
        if current.status.final:
            say(f"Execution {execution} had ended before: {current.status}.")
            return
        ended = close_cancelled(app, current.id)
        if ended.status.final:
            say(f"Execution {execution} is {ended.status}.")
        else:
            say(f"The process that drives execution {execution} was told to cancel it.")

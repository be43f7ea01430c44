"""Exit codes that do not belong to an error; those of errors are in `agent_md.error_codes`."""

from __future__ import annotations

from agent_md.executions.execution import Execution
from agent_md.executions.states import Status

__all__ = ["CUT", "EXIT_OF", "GIVEN_BACK", "INTERRUPTED", "WAITING", "exit_code"]

GIVEN_BACK = 1
"""The process stopped driving and returned the execution to the queue; `resume` continues it."""

WAITING = 3
"""An execution is left waiting for an answer."""

CUT = 4
"""An execution was ended by a limit; also one whose final text the token limit of its model cut."""

INTERRUPTED = 130
"""Ctrl-C, as shells have it: 128 and the number of the signal."""

EXIT_OF = {Status.SUCCESS: 0, Status.ERROR: 1, Status.ABORTED: CUT, Status.TIMEOUT: 5}


def exit_code(execution: Execution) -> int:
    """That of an ended execution."""
    return CUT if execution.cut is not None else EXIT_OF[execution.status]

"""Starts a process for each suspect, so that its death affects no other execution."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Sequence

from agent_md.error_codes import codes_of
from agent_md.errors import UsageError
from agent_md.executions.ids import ExecutionId

__all__ = ["SuspectProcess"]

_PATIENCE_S = 5.0
"""How long a process that was told to end may take to give its execution back."""
_REFUSED = codes_of(UsageError("")).exit


class SuspectProcess:
    """`DriveAlone` by a program that is started with the command for an execution. It keeps the environment and the
    standard output of this process, and goes on to where nothing is in flight if this process dies."""

    def __init__(self, command: Callable[[ExecutionId], Sequence[str]]) -> None:
        self._command = command

    async def __call__(self, execution_id: ExecutionId) -> None:
        process = await asyncio.create_subprocess_exec(*self._command(execution_id), stdin=subprocess.DEVNULL)
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _PATIENCE_S)
            except TimeoutError:
                process.kill()
                await process.wait()
            raise
        if code == _REFUSED:
            raise UsageError(f"process {process.pid}, which was to drive it alone, says why in the log")

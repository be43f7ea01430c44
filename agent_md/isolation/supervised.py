"""Processes under the supervisor, which ends them with all that they started."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_md.errors import OutOfResources
from agent_md.python_command import python_command
from agent_md.resource_shortages import shortage

__all__ = ["SupervisedProcess", "start_supervised"]

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_END_S = 7.0
"""More than the supervisor needs for the hardest process."""


@dataclass(frozen=True, slots=True)
class SupervisedProcess:
    """A running process with its pipes. It belongs to the event loop that started it."""

    process: asyncio.subprocess.Process
    _wanted: int

    async def end(self) -> None:
        """Ends it with all that it started: it may end by itself for a moment, then SIGTERM, then SIGKILL. Its pipes are
        of no use then. Called once."""
        os.close(self._wanted)
        if self.process.stdin is not None:
            self.process.stdin.close()
        transport: asyncio.SubprocessTransport = self.process._transport  # type: ignore[attr-defined]
        if (stdout := transport.get_pipe_transport(1)) is not None:
            stdout.close()  # what nobody reads any more would keep `wait` from returning
        with suppress(TimeoutError):
            await asyncio.wait_for(self.process.wait(), _END_S)

    async def close(self) -> None:
        """Frees what is left of it, after `end`."""
        self.process._transport.close()  # type: ignore[attr-defined]
        await asyncio.sleep(0)  # its pipes are closed in the next round of the loop


async def start_supervised(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    *,
    stdin: int,
    stderr: int,
    descriptors: Sequence[int] = (),
) -> SupervisedProcess:
    """Starts a command, whose first word is the path of a program. `stdin` and `stderr` as for `subprocess`; the process
    inherits the `descriptors`. Its exit code is 128 and the number of the signal that ended it.

    Raises OutOfResources if there is no process to be had, OSError if it cannot be started.
    """
    theirs, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *python_command("-I", "-S", str(_SUPERVISOR), str(theirs), *command),
            stdin=stdin,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            env=dict(environment),
            cwd=folder,
            pass_fds=(theirs, *descriptors),
            start_new_session=True,
        )
    except BaseException as error:
        os.close(ours)
        if isinstance(error, (OSError, RuntimeError)) and (short := shortage(error)) is not None:
            raise OutOfResources(short) from error
        raise
    finally:
        os.close(theirs)
    return SupervisedProcess(process, ours)

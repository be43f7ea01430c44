"""Runs another program on the terminal, such as a pager or an editor, and restores the terminal mode afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import termios
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["command_in", "run_on_terminal"]

_GRACE = 1.0
"""Seconds that a program has to end by itself when it is no longer wanted."""


def command_in(words: str, environ: Mapping[str, str]) -> list[str] | None:
    """The command that a variable such as `$PAGER` names, as an argument list; None if there is no such program."""
    try:
        command = shlex.split(words)
    except ValueError:
        return None
    return command if command and shutil.which(command[0], path=environ.get("PATH")) else None


async def run_on_terminal(
    command: Sequence[str], environ: Mapping[str, str], terminal: int, output: int, *, text: str | None = None
) -> int | None:
    """The exit code of the program; None if it could not be run. Never through a shell; ended at once if this task is
    cancelled.

    With `text` it reads that from its standard input, else the keys. `terminal` is the descriptor that has the keys and
    whose modes are restored, `output` the one that is written to.
    """
    source = terminal if text is None else PIPE
    with _restored(terminal):
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=source, stdout=output, env=dict(environ))
        except OSError:
            return None
        try:
            await process.communicate(None if text is None else text.encode())
        finally:
            if process.returncode is None:
                await _end(process)
    return process.returncode


async def _end(process: Process) -> None:
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _GRACE)
    except TimeoutError:
        process.kill()
        await process.wait()


@contextlib.contextmanager
def _restored(terminal: int) -> Iterator[None]:
    modes = termios.tcgetattr(terminal)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error):  # a terminal that is gone needs no modes
            termios.tcsetattr(terminal, termios.TCSADRAIN, modes)

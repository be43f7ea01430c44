"""Shows a long text through the user's pager, and gives the terminal back as it was."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import shutil
import termios
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator, Mapping

__all__ = ["pager_command", "show_paged"]

_HEADING = "  (longer than the screen; q goes to the question)\n"

_GRACE = 1.0
"""Seconds that a pager has to end by itself when its text is no longer wanted."""


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """`$PAGER` as an argument list, `less` if it is unset; None for an empty one, a missing one, a dumb terminal."""
    chosen = environ.get("PAGER", "" if environ.get("TERM", "dumb") == "dumb" else "less")
    try:
        words = shlex.split(chosen)
    except ValueError:
        return None
    return words if words and shutil.which(words[0], path=environ.get("PATH")) else None


async def show_paged(text: str, command: list[str], environ: Mapping[str, str], terminal: int, output: int) -> bool:
    """Whether the pager showed the text, under a line that says how to leave it, and the user left it; False if it could
    not be run or failed.

    Never through a shell; ended at once if this task is cancelled. The text must be safe already. `terminal` is the
    descriptor whose modes are restored, `output` the one that the pager writes to.
    """
    secure = {"LESS": "FRX"} | dict(environ) | {"LESSSECURE": "1"}
    with _restored(terminal):
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=output, env=secure)
        except OSError:
            return False
        try:
            await process.communicate(f"{_HEADING}{text}".encode())
        finally:
            if process.returncode is None:
                await _end(process)
    return process.returncode == 0


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

"""Runs one program with limits of time and output. The process ends with its call, and so does all that it started."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_md.errors import ToolError
from agent_md.isolation.supervised import start_supervised

__all__ = ["MOST_OUTPUT", "ChildEnd", "ChildProcess", "run_child"]

MOST_OUTPUT = 4 * 2**20
"""Bytes of output after which a process is ended."""
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """What is started, where, and all of its environment. `command[0]` is an absolute path; `descriptors` are inherited."""

    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    limit_s: float
    most_bytes: int = MOST_OUTPUT
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildEnd:
    """How a process ended. `code` is its exit code, 128 and the number of the signal that ended it; None = it was ended
    here, for the reason in `ended`. `output` is what it wrote to standard output and error, in order."""

    code: int | None
    output: bytes
    ended: str = ""


async def run_child(child: ChildProcess) -> ChildEnd:
    """Runs it to its end. Its standard input is empty.

    When this returns, or is cancelled, the process and all its descendants have been sent SIGTERM, and SIGKILL a moment
    later; on Linux also those that left its process group. The same happens when this program is killed.
    Raises ToolError if it cannot be started, OutOfResources if there is no process to be had.
    """
    try:
        running = await start_supervised(
            *(child.command, child.folder, child.environment),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.STDOUT,
            descriptors=child.descriptors,
        )
    except OSError as error:
        raise ToolError(f"{child.command[0]} cannot be started: {error.strerror}") from error
    output, ended = bytearray(), ""
    try:
        async with asyncio.timeout(child.limit_s):
            await _read(running.process, output, child.most_bytes)
            if len(output) <= child.most_bytes:
                await running.process.wait()
            else:
                ended = f"it wrote more than {child.most_bytes} bytes"
    except TimeoutError:
        ended = f"it did not end within {child.limit_s:g} s"
    finally:
        await running.end()
        await running.close()
    if ended:
        return ChildEnd(None, _whole_lines(bytes(output[: child.most_bytes])), ended)
    return ChildEnd(running.process.returncode, bytes(output))


async def _read(process: asyncio.subprocess.Process, output: bytearray, most: int) -> None:
    assert process.stdout is not None
    while len(output) <= most and (chunk := await process.stdout.read(_CHUNK)):
        output += chunk
        await asyncio.sleep(0)  # a pipe that is always full must not hold the loop


def _whole_lines(output: bytes) -> bytes:
    """Without the last line, which was cut: it may hold a part of a secret, which nobody would find."""
    return output[: output.rfind(b"\n") + 1]

"""Runs one program with limits of time and output. The process ends with its call, and so does all that it started."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_md.errors import OutOfResources, ToolError
from agent_md.isolation.supervised import supervised
from agent_md.resource_shortages import shortage

__all__ = ["MOST_OUTPUT", "ChildEnd", "ChildProcess", "run_child"]

MOST_OUTPUT = 4 * 2**20
"""Bytes of output after which a process is ended."""
_CHUNK = 1 << 16
_END_S = 7.0
"""More than the supervisor needs for the hardest process."""


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
    process, wanted = await _start(child)
    output, ended = bytearray(), ""
    try:
        async with asyncio.timeout(child.limit_s):
            await _read(process, output, child.most_bytes)
            if len(output) <= child.most_bytes:
                await process.wait()
            else:
                ended = f"it wrote more than {child.most_bytes} bytes"
    except TimeoutError:
        ended = f"it did not end within {child.limit_s:g} s"
    finally:
        os.close(wanted)
        await _end(process)
    if ended:
        return ChildEnd(None, _whole_lines(bytes(output[: child.most_bytes])), ended)
    return ChildEnd(process.returncode, bytes(output))


async def _start(child: ChildProcess) -> tuple[asyncio.subprocess.Process, int]:
    """The supervisor of the process, and the descriptor that is to be closed when it is to end."""
    theirs, ours = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *supervised(theirs, child.command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(child.environment),
            cwd=child.folder,
            pass_fds=(theirs, *child.descriptors),
            start_new_session=True,
        )
    except BaseException as error:
        os.close(ours)
        if isinstance(error, (OSError, RuntimeError)) and (short := shortage(error)) is not None:
            raise OutOfResources(short) from error
        if isinstance(error, OSError):
            raise ToolError(f"{child.command[0]} cannot be started: {error.strerror}") from error
        raise
    finally:
        os.close(theirs)
    return process, ours


async def _read(process: asyncio.subprocess.Process, output: bytearray, most: int) -> None:
    assert process.stdout is not None
    while len(output) <= most and (chunk := await process.stdout.read(_CHUNK)):
        output += chunk
        await asyncio.sleep(0)  # a pipe that is always full must not hold the loop


async def _end(process: asyncio.subprocess.Process) -> None:
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]
    if (pipe := transport.get_pipe_transport(1)) is not None:
        pipe.close()  # what nobody reads any more would keep `wait` from returning
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _END_S)
    transport.close()
    await asyncio.sleep(0)  # its pipes are closed in the next round of the loop


def _whole_lines(output: bytes) -> bytes:
    """Without the last line, which was cut: it may hold a part of a secret, which nobody would find."""
    return output[: output.rfind(b"\n") + 1]

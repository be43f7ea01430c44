"""A server that is a process of ours: started, spoken with over its standard input and output, and ended."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_md.isolation.supervised import SupervisedProcess, start_supervised
from agent_md.tools.mcp.messages import Incoming, ServerFault
from agent_md.tools.mcp.server_log import ServerLog
from agent_md.tools.results import one_line

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["StdioCommand", "stdio_streams"]

_CHUNK = 1 << 16
_LAST_WORDS_S = 1.0


@dataclass(frozen=True, slots=True)
class StdioCommand:
    """What is started, where, and all of its environment."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path


@asynccontextmanager
async def stdio_streams(
    command: StdioCommand, log: ServerLog, died: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams that `mcp.ClientSession` takes; the server and all that it started have ended when the block is left.

    `died` is called, once, with what happened when the server ends, or breaks the protocol, before that.
    Raises ServerFault if it cannot be started.
    """
    import anyio

    running = await _start(command)
    incoming_out, incoming = anyio.create_memory_object_stream[Any](0)
    outgoing, outgoing_in = anyio.create_memory_object_stream[Any](0)
    server = _Server(running.process, incoming_out, log, died)
    server.log_task = asyncio.create_task(server.keep_log())
    tasks = [asyncio.create_task(server.read()), asyncio.create_task(server.write(outgoing_in)), server.log_task]
    try:
        yield incoming, outgoing
    finally:
        server.leave()
        for stream in (incoming_out, incoming, outgoing, outgoing_in):
            stream.close()
        await running.end()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await running.close()
        log.end()


async def _start(command: StdioCommand) -> SupervisedProcess:
    if not command.cwd.is_dir():
        raise ServerFault(f"its folder {command.cwd} is not there")
    program = shutil.which(command.command, path=command.env.get("PATH", os.defpath))
    if "/" in command.command:
        program = os.path.join(command.cwd, command.command)
    if program is None or not os.access(program, os.X_OK) or os.path.isdir(program):
        raise ServerFault(
            f"its command {command.command!r} is no program that can be started; install it, or give its path"
        )
    try:
        return await start_supervised(
            *([program, *command.args], command.cwd, command.env),
            stdin=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise ServerFault(f"it cannot be started: {error.strerror}") from error


class _Server:
    """The three pipes of the process."""

    def __init__(
        self, process: asyncio.subprocess.Process, to_session: Any, log: ServerLog, died: Callable[[str], None]
    ) -> None:
        self._process = process
        self._to_session = to_session
        self._log = log
        self._died = died
        self._left = False
        self.log_task: asyncio.Task[None]
        self._incoming = Incoming(log.write)

    def leave(self) -> None:
        """From now on its end is no news."""
        self._left = True

    async def read(self) -> None:
        import anyio

        stdout = self._process.stdout
        assert stdout is not None
        try:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                while chunk := await stdout.read(_CHUNK):
                    for message in self._incoming.feed(chunk):
                        await self._to_session.send(message)
                    await asyncio.sleep(0)  # a pipe that is always full must not hold the loop
            fault = await self._last_words()
        except ServerFault as error:
            fault = str(error)
        if not self._left:
            self._left = True
            self._died(fault)
        self._to_session.close()

    async def _last_words(self) -> str:
        """How it ended, with the last line of its standard error."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _LAST_WORDS_S)
        await asyncio.wait({self.log_task}, timeout=_LAST_WORDS_S)
        self._log.end()
        code, said = self._process.returncode, one_line(self._log.last_line, 300)
        return "it ended" + ("" if code is None else f" with exit code {code}") + (f": {said}" if said else "")

    async def write(self, from_session: Any) -> None:
        import anyio

        stdin = self._process.stdin
        assert stdin is not None
        message: SessionMessage
        with suppress(anyio.ClosedResourceError, OSError):
            async for message in from_session:
                line = message.message.model_dump_json(by_alias=True, exclude_none=True)
                stdin.write(line.encode("utf-8", "surrogatepass") + b"\n")
                self._incoming.asked()
                await stdin.drain()

    async def keep_log(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        while chunk := await stderr.read(_CHUNK):
            self._log.write(chunk)

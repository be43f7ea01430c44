"""The MCP servers of one process: each is started or reached when it is first needed, once for all executions."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_md.agents.mcp_file import McpServer
from agent_md.errors import ConfigInvalid, ToolError
from agent_md.tools.mcp.connection import Asked, Connection
from agent_md.tools.mcp.declared import DeclaredTool
from agent_md.tools.mcp.messages import ServerFault
from agent_md.tools.mcp.server_log import OpenLog, ServerLog
from agent_md.tools.threads import ToolThreads

if TYPE_CHECKING:
    from mcp import ClientSession, types

__all__ = ["Listing", "McpServers", "Surroundings"]

log = logging.getLogger(__name__)

_AGAIN_S = 60.0
"""How long a server that could not be used is left alone."""
_CLOSE_S = 4.0
_GIVEN = ("PATH", "HOME", "LANG")
"""The only variables of ours that a server gets besides those that its entry names."""
_STREAM_S = 3600.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What servers are started with. `environ` gives the variables as they are now."""

    workspace: Path
    home: Path
    environ: Callable[[], Mapping[str, str]]
    open_log: Callable[[str], OpenLog]
    """For the file that has what a server of this name writes to its standard error."""
    redacted: Callable[[str], str]
    heard: Callable[[str, Sequence[DeclaredTool]], None] = lambda server, tools: None
    """Gets what a server named, each time that it does."""
    permit: Callable[[McpServer], None] = lambda entry: None
    """Raises UsageError for a server that must not be started or reached as its entry and the variables are now."""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers; or, with `failure`, why it cannot be used. `remarks`: what of it is left out, and why."""

    tools: tuple[DeclaredTool, ...] = ()
    failure: str | None = None
    remarks: tuple[str, ...] = ()


@dataclass(slots=True)
class _Known:
    """A server as this process knows it."""

    entry: McpServer
    make: Callable[[], Connection]
    connection: Connection | None = None
    loop: asyncio.AbstractEventLoop | None = None
    failure: str | None = None
    failed_at: float = 0.0
    trying: bool = False

    def here(self) -> Connection:
        """The connection of the running loop. A loop that was blocked was given up, with what it had."""
        loop = asyncio.get_running_loop()
        if self.connection is None or self.loop is not loop:
            self.loop, self.connection = loop, self.make()
        return self.connection


class McpServers:
    """Starts, asks and ends servers. Each has an event loop of its own, so that one that hangs holds up no other."""

    def __init__(self, surroundings: Surroundings, threads: ToolThreads) -> None:
        self._surroundings = surroundings
        self._threads = threads
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()
        self._closed = False

    def listed(self, entries: Sequence[McpServer]) -> dict[str, Listing]:
        """What each of the servers offers. Blocks while servers start, for their `connect_timeout` at the most.

        A server that could not be used is not waited for again: it is tried behind the caller's back, a minute later at
        the earliest.
        """
        if not entries:
            return {}

        async def all_of_them() -> list[Listing]:
            return await asyncio.gather(*(self._listing(entry) for entry in entries))

        found = asyncio.run(all_of_them())
        return {entry.name: listing for entry, listing in zip(entries, found, strict=True)}

    def redacted(self, text: str) -> str:
        """The text without secrets."""
        return self._surroundings.redacted(text)

    def current(self, entry: McpServer, tool: str) -> DeclaredTool | None:
        """What the server said of a tool when this process heard of it last; None if it has not."""
        known = self._known.get(entry.name)
        if known is None or known.entry != entry or known.connection is None:
            return None
        return known.connection.tools.get(tool)

    async def ready(self, entry: McpServer) -> None:
        """Returns when the server can be called. Raises ToolError if it cannot be used."""
        known = self._of(entry)
        failure = self._recent_failure(known) or await self._try(known)
        if failure is not None:
            raise ToolError(f"the MCP server {entry.name} cannot be used: {failure}")

    async def call(self, entry: McpServer, tool: str, args: dict[str, Any], asked: Asked) -> types.CallToolResult:
        """The result of a call, which was not made if ToolError says that the server cannot be used. Raises as
        `Connection.call` does."""
        known = self._of(entry)
        for last in (False, True):
            await self.ready(entry)
            try:
                result: types.CallToolResult = await self._on_loop(
                    known, f"MCP tool {tool}", lambda: known.here().call(tool, args, asked)
                )
                return result
            except ServerFault as fault:
                if last:
                    raise ToolError(f"the MCP server {entry.name} cannot be used: {fault}") from None
        raise AssertionError

    def close(self) -> None:
        """Ends all servers; what does not end in a few seconds is left to its supervisor."""
        with self._lock:
            self._closed = True
            everything, self._known = list(self._known.values()), {}
        if not everything:
            return

        async def end_all() -> None:
            await asyncio.wait([asyncio.create_task(self._close(known)) for known in everything], timeout=_CLOSE_S)

        thread = threading.Thread(target=lambda: asyncio.run(end_all()), name="end of MCP servers", daemon=True)
        thread.start()
        thread.join(_CLOSE_S + 1)

    async def _close(self, known: _Known) -> None:
        await self._threads.on_loop(
            _loop_of(known.entry.name), f"end of {known.entry.name}", lambda: known.here().close()
        )

    # Each server

    def _of(self, entry: McpServer) -> _Known:
        """The server as the file has it now: one that was changed there is another one."""
        with self._lock:
            if self._closed:
                raise ToolError("this process is ending")
            known = self._known.get(entry.name)
            if known is not None and known.entry == entry:
                return known
            if known is not None:
                threading.Thread(
                    target=lambda: asyncio.run(self._close(known)), name="end of an MCP server", daemon=True
                ).start()
            made = self._known[entry.name] = _Known(entry, lambda: self._connection(entry))
            return made

    def _connection(self, entry: McpServer) -> Connection:
        return Connection(
            entry.name,
            self._opener(entry),
            connect_timeout=entry.connect_timeout,
            timeout=entry.timeout,
            heard=lambda tools: self._surroundings.heard(entry.name, tools),
        )

    async def _listing(self, entry: McpServer) -> Listing:
        known = self._of(entry)
        failure = self._old_failure(known) or await self._try(known)
        if failure is not None:
            return Listing(failure=failure)
        connection = known.connection
        assert connection is not None
        return Listing(tuple(connection.tools.values()), remarks=tuple(connection.remarks))

    async def _try(self, known: _Known) -> str | None:
        """Connects if need be; gives why that failed."""
        try:
            await self._on_loop(known, f"MCP server {known.entry.name}", lambda: known.here().opened())
        except (ServerFault, ConfigInvalid, ToolError) as error:
            known.failure, known.failed_at = self._surroundings.redacted(str(error)), time.monotonic()
            log.warning("the MCP server %s cannot be used: %s", known.entry.name, known.failure)
            return known.failure
        known.failure = None
        return None

    def _recent_failure(self, known: _Known) -> str | None:
        """Of a server that is left alone."""
        return known.failure if time.monotonic() - known.failed_at < _AGAIN_S else None

    def _old_failure(self, known: _Known) -> str | None:
        """Of a server that was not tried with success since; tries it, if that is due, and nobody waits for it."""
        failure = known.failure
        if failure is not None and self._recent_failure(known) is None and not known.trying:
            known.trying = True

            def try_again() -> None:
                try:
                    asyncio.run(self._try(known))
                finally:
                    known.trying = False

            threading.Thread(target=try_again, name=f"MCP server {known.entry.name}", daemon=True).start()
        return failure

    async def _on_loop(self, known: _Known, name: str, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        outcome = await self._threads.on_loop(_loop_of(known.entry.name), name, make)
        return outcome.result()

    def _opener(self, entry: McpServer) -> Any:
        """Opens sessions with one server."""
        around = self._surroundings

        async def open_session(
            stack: AsyncExitStack, died: Callable[[str], None], options: dict[str, Any]
        ) -> ClientSession:
            environ = around.environ()
            filled = entry.filled(environ, around.workspace, around.home)
            around.permit(entry)
            if filled.url is not None:
                return await _over_http(stack, filled, died, options)
            server_log = ServerLog(around.open_log(entry.name), around.redacted)
            return await _over_stdio(stack, filled, around, environ, server_log, died, options)

        return open_session


async def _over_stdio(
    stack: AsyncExitStack,
    entry: McpServer,
    around: Surroundings,
    environ: Mapping[str, str],
    server_log: ServerLog,
    died: Callable[[str], None],
    options: dict[str, Any],
) -> ClientSession:
    from mcp import ClientSession

    from agent_md.tools.mcp.environment import file_variables
    from agent_md.tools.mcp.stdio import StdioCommand, stdio_streams

    assert entry.command is not None
    given = {name: environ[name] for name in _GIVEN if name in environ}
    named = {**file_variables(entry, around.workspace), **dict(entry.env)}
    cwd = around.workspace if entry.cwd is None else around.workspace / Path(entry.cwd).expanduser()
    command = StdioCommand(entry.command, entry.args, {**given, **named}, cwd)
    incoming, outgoing = await stack.enter_async_context(stdio_streams(command, server_log, died))
    return await stack.enter_async_context(ClientSession(incoming, outgoing, **options))


async def _over_http(
    stack: AsyncExitStack, entry: McpServer, died: Callable[[str], None], options: dict[str, Any]
) -> ClientSession:
    from langchain_mcp_adapters.sessions import StreamableHttpConnection, create_session

    from agent_md.tools.mcp.http import http_client_factory

    assert entry.url is not None
    connection = StreamableHttpConnection(
        transport="streamable_http",
        url=entry.url,
        headers=dict(entry.headers),
        timeout=entry.connect_timeout,
        sse_read_timeout=_STREAM_S,
        terminate_on_close=False,
        session_kwargs=options,
        httpx_client_factory=http_client_factory(entry.url, died),
    )
    return await stack.enter_async_context(create_session(connection))


def _loop_of(server: str) -> str:
    return f"the MCP server {server}"

"""One connection to one server, on the event loop that the server has for itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_md.errors import ToolError
from agent_md.tools.base import CutOff
from agent_md.tools.mcp.declared import DeclaredTool, declared_tools
from agent_md.tools.mcp.messages import ServerFault
from agent_md.tools.results import one_line

if TYPE_CHECKING:
    from mcp import ClientSession, types

__all__ = ["Asked", "AskedAmongOthers", "Connection", "OpenSession"]

log = logging.getLogger(__name__)

Asked = Callable[["types.ElicitRequestParams"], "types.ElicitResult"]
"""What a call answers when the server asks something while it runs."""

OpenSession = Callable[[AsyncExitStack, Callable[[str], None], dict[str, Any]], Awaitable["ClientSession"]]
"""Starts or reaches the server and enters a session, with these arguments, into the stack. The callback is to be called
with what happened when the server has ended, or is done with."""

_PING_S = 5.0


class AskedAmongOthers(ToolError):
    """The server asked something while several calls ran; nobody can tell which of them asked."""


@dataclass(eq=False, slots=True)
class _Running:
    """A call on its way."""

    asked: Asked
    doubtful: bool = False


class Connection:
    """All methods but the constructor are for its own loop."""

    def __init__(
        self,
        server: str,
        open_session: OpenSession,
        *,
        connect_timeout: float,
        timeout: float,
        heard: Callable[[Sequence[DeclaredTool]], None],
    ) -> None:
        """`heard` gets what the server named, each time that it does."""
        self.server = server
        self._open_session = open_session
        self._connect_timeout = connect_timeout
        self._timeout = timeout
        self._heard = heard
        self._session: ClientSession | None = None
        self._ended: asyncio.Future[str] | None = None
        """Gets why the session is over."""
        self._serving: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._one_at_a_time = asyncio.Lock()
        self._asks = False
        self._running: set[_Running] = set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stale = False
        self._unsent = False
        """Whether the session ended because nothing could be sent."""
        self._looking: asyncio.Task[None] | None = None
        self.tools: dict[str, DeclaredTool] = {}
        """What the server offered when it was asked last, by its own names."""
        self.remarks: list[str] = []

    async def opened(self) -> None:
        """Returns when the server can be called. Raises ServerFault after the time for that at the latest."""
        async with self._opening:
            if self._session is None:
                await self._open()
            elif self._stale:
                await self._list_again(self._session)

    async def call(self, tool: str, args: dict[str, Any], asked: Asked) -> types.CallToolResult:
        """The result of a call. Raises ServerFault when nothing was sent, CutOff when it may have run, AskedAmongOthers,
        and ToolError for what the server refuses."""
        await self.opened()
        if not self._asks:
            return await self._call(tool, args, asked)
        async with self._one_at_a_time:
            await self._idle.wait()
            await self.opened()
            return await self._call(tool, args, asked)

    async def close(self) -> None:
        """Ends the session, and the server if it is a process of ours."""
        if self._serving is not None:
            self._end("it was closed")
            with suppress(Exception):
                await self._serving

    # Opening

    async def _open(self) -> None:
        _import_libraries()
        if self._serving is not None:
            await asyncio.wait({self._serving})
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.get_running_loop().create_future()
        self._unsent = False
        self._serving = asyncio.create_task(self._serve(ready, self._ended))
        try:
            async with asyncio.timeout(self._connect_timeout):
                await _first_of(ready, self._ended)
        except TimeoutError:
            self._end("it did not answer")
            raise ServerFault(f"it did not answer within {self._connect_timeout:g} s") from None
        if not ready.done():
            ready.cancel()
            raise ServerFault(self._ended.result())

    async def _serve(self, ready: asyncio.Future[None], ended: asyncio.Future[str]) -> None:
        """Holds the session open until it is over, on whichever side."""
        try:
            async with AsyncExitStack() as stack:
                session = await self._open_session(stack, self._end, self._session_options())
                opening = asyncio.create_task(self._begin(session))
                await _first_of(opening, ended)
                if not opening.done():
                    opening.cancel()
                    await asyncio.wait({opening})
                elif (error := opening.exception()) is None:
                    self._session = session
                    ready.set_result(None)
                    await asyncio.wait({ended})
                else:
                    self._end(_reason(error))
        except asyncio.CancelledError:
            self._end("it was closed")
            raise
        except BaseException as error:  # groups of whatever the transport raised
            self._end(_reason(error), unsent=_nothing_was_sent(error))
        finally:
            self._session = None

    async def _begin(self, session: ClientSession) -> None:
        await session.initialize()
        await self._list(session)

    async def _list(self, session: ClientSession) -> None:
        from langchain_mcp_adapters.tools import load_mcp_tools

        self._stale = False
        listed = await load_mcp_tools(session)
        found, self.remarks = declared_tools(
            self.server, [(tool.name, tool.description, tool.args_schema) for tool in listed]
        )
        for remark in self.remarks:
            log.warning("%s", remark)
        self.tools = {tool.tool: tool for tool in found}
        self._heard(found)

    async def _list_again(self, session: ClientSession) -> None:
        """After the server said that its list has changed. One that does not give it is taken at its last word."""
        with suppress(Exception):
            async with asyncio.timeout(_PING_S):
                await self._list(session)

    def _session_options(self) -> dict[str, Any]:
        from mcp.types import Implementation

        return {
            "elicitation_callback": self._elicit,
            "message_handler": self._hear,
            "client_info": Implementation(name="agentmd", version="0"),
        }

    def _end(self, why: str, *, unsent: bool = False) -> None:
        self._session = None
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(why)
            self._unsent = unsent

    # Calling

    async def _call(self, tool: str, args: dict[str, Any], asked: Asked) -> types.CallToolResult:
        session, ended = self._session, self._ended
        if session is None or ended is None:
            raise ServerFault("it ended")
        running = _Running(asked)
        self._running.add(running)
        self._idle.clear()
        sent = asyncio.create_task(_send(session, tool, args))
        try:
            async with asyncio.timeout(self._timeout):
                await _first_of(sent, ended)
            if not sent.done():
                await asyncio.wait({sent}, timeout=0.1)  # an answer that came with the end
            return self._result(sent, ended, alone=len(self._running) == 1, doubtful=running.doubtful)
        except TimeoutError:
            self._look_after(session)
            raise CutOff(f"the MCP server {self.server} did not answer within {self._timeout:g} s") from None
        finally:
            self._running.discard(running)
            if not self._running:
                self._idle.set()
            sent.cancel()

    def _result(
        self, sent: asyncio.Task[types.CallToolResult], ended: asyncio.Future[str], *, alone: bool, doubtful: bool
    ) -> types.CallToolResult:
        from mcp import McpError

        error = sent.exception() if sent.done() and not sent.cancelled() else None
        if not sent.done() or (error is not None and (ended.done() or not isinstance(error, McpError))):
            why = ended.result() if ended.done() else _reason(error)
            if alone and self._unsent:
                raise ServerFault(why)
            raise CutOff(f"the MCP server {self.server} was lost during the call: {why}")
        if doubtful:
            raise AskedAmongOthers
        if isinstance(error, McpError):
            if "session terminated" in error.error.message.lower():  # told before anything of it was done
                self._end("it knows nothing of the session any more")
                raise ServerFault("it knows nothing of the session any more")
            raise ToolError(f"the MCP server {self.server} refused the call: {one_line(error.error.message, 2000)}")
        return sent.result()

    def _look_after(self, session: ClientSession) -> None:
        """Ends a server that answers nothing at all, so that the next call finds a new one."""

        async def look() -> None:
            try:
                async with asyncio.timeout(_PING_S):
                    await session.send_ping()
            except Exception:
                if self._session is session:
                    self._end("it did not answer any more")

        self._looking = asyncio.create_task(look())

    # What the server says by itself

    async def _elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        from mcp.types import ElicitResult

        self._asks = True
        first = next(iter(self._running), None)
        if first is not None and len(self._running) == 1 and not first.doubtful:
            return first.asked(params)
        for running in self._running:
            running.doubtful = True
        return ElicitResult(action="cancel")

    async def _hear(self, message: Any) -> None:
        from mcp.types import ServerNotification, ToolListChangedNotification

        if isinstance(message, ServerNotification) and isinstance(message.root, ToolListChangedNotification):
            self._stale = True
        elif isinstance(message, Exception):
            log.debug("the MCP server %s: %s", self.server, message)


def _import_libraries() -> None:
    """Takes a second, which is not to count as the server's."""
    import langchain_mcp_adapters.sessions
    import langchain_mcp_adapters.tools  # noqa: F401


async def _first_of(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _send(session: ClientSession, tool: str, args: dict[str, Any]) -> types.CallToolResult:
    """Not `session.call_tool`: that checks results against a schema of the server's, whose patterns may take for ever."""
    from mcp import types

    params = types.CallToolRequestParams(name=tool, arguments=args)
    request = types.ClientRequest(types.CallToolRequest(params=params))
    return await session.send_request(request, types.CallToolResult)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _reason(error: BaseException | None) -> str:
    """The first of what was raised that says something, in one line."""
    if error is None:
        return "it ended"
    first = _leaves(error)[0]
    text = one_line(str(first), 500) or type(first).__name__
    return text if isinstance(first, ServerFault) else f"{type(first).__name__}: {text}"


def _nothing_was_sent(error: BaseException) -> bool:
    import httpx

    return all(isinstance(leaf, httpx.ConnectError | httpx.ConnectTimeout) for leaf in _leaves(error))

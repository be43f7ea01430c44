"""An HTTP proxy on a Unix socket that connects only to allowed hosts: the only network access of a sandbox."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import httpx

from agent_md.errors import AddressRefused
from agent_md.outbound.addresses import host_allowed, plain_host
from agent_md.outbound.transport import Resolve, allowed_addresses, resolve

__all__ = ["OutboundProxy"]

_HEAD_BYTES = 64 * 1024
_TIMEOUT_S = 30.0
_MOST_CONNECTIONS = 64
_CHUNK = 64 * 1024
_TURNS = 5


class OutboundProxy:
    """Serves while it is entered, on a thread and an event loop of its own.

    A host must be one of `allow_hosts`, and every address of it public, unless it is one of `private_hosts()`. Names
    are looked up once, and the connection goes to what was checked.
    """

    def __init__(
        self,
        allow_hosts: Collection[str],
        private_hosts: Callable[[], Collection[str]] = tuple,
        *,
        resolve: Resolve = resolve,
    ) -> None:
        self._allow_hosts = tuple(plain_host(host) for host in allow_hosts)
        self._private_hosts = private_hosts
        self._resolve = resolve
        self._loop = asyncio.new_event_loop()
        self._over: asyncio.Event
        self._ready = threading.Event()
        self._failed: OSError | None = None
        self._connections = 0

    def __enter__(self) -> Path:
        """The path of the socket."""
        self._folder = Path(tempfile.mkdtemp(prefix="agentmd-"))
        self._thread = threading.Thread(target=self._work, name="proxy of a sandbox", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failed is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise self._failed
        return self._folder / "proxy.sock"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(2)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _work(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except OSError as error:
            self._failed = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._over = asyncio.Event()
        server = await asyncio.start_unix_server(self._connection, self._folder / "proxy.sock", limit=_HEAD_BYTES)
        self._ready.set()
        async with server:
            await self._over.wait()
            for _ in range(_TURNS):  # a connection that was just taken has no task of its own yet
                await asyncio.sleep(0)
        while connections := asyncio.all_tasks() - {asyncio.current_task()}:
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
            await asyncio.sleep(0)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections > _MOST_CONNECTIONS:
                raise AddressRefused(f"more than {_MOST_CONNECTIONS} connections at once")
            async with asyncio.timeout(_TIMEOUT_S):
                head = await reader.readuntil(b"\r\n\r\n")
                out_reader, out_writer = await self._forward(head, writer)
            try:
                await _relay(reader, writer, out_reader, out_writer)
            finally:
                await _close(out_writer)
        except (AddressRefused, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, TimeoutError) as error:
            await _refuse(writer, 403 if isinstance(error, AddressRefused) else 502, error)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        except asyncio.CancelledError:
            pass  # the proxy ends; Python 3.11 would report it as an error of the connection
        finally:
            self._connections -= 1
            await _close(writer)

    async def _forward(
        self, head: bytes, writer: asyncio.StreamWriter
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the host of a request, to which the request was sent, or was said to be open."""
        request, _, headers = head.decode("latin-1").partition("\r\n")
        method, target, version = request.split(" ")
        tunnel = method == "CONNECT"
        url = httpx.URL(f"https://{target}" if tunnel else target)
        out_reader, out_writer = await self._connect(url)
        if tunnel:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            return out_reader, out_writer
        kept = [
            line
            for line in headers.split("\r\n")
            if line and not line.lower().startswith(("proxy-", "connection:", "keep-alive:"))
        ]
        path = url.raw_path.decode("ascii")
        out_writer.write(
            "\r\n".join([f"{method} {path} {version}", *kept, "Connection: close", "", ""]).encode("latin-1")
        )
        return out_reader, out_writer

    async def _connect(self, url: httpx.URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host = url.raw_host.decode("ascii")
        if not (host_allowed(host, self._allow_hosts) or host_allowed(url.host, self._allow_hosts)):
            raise AddressRefused(f"{host} is not one of the hosts in allow_hosts of this agent; nothing was sent")
        private = frozenset(plain_host(name) for name in self._private_hosts())
        port = url.port or (443 if url.scheme == "https" else 80)
        failed: OSError | None = None
        for address in await allowed_addresses(url, private, self._resolve):
            try:
                return await asyncio.open_connection(address, port)
            except OSError as error:
                failed = error
        raise failed or OSError(f"{host} has no address")


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    out_reader: asyncio.StreamReader,
    out_writer: asyncio.StreamWriter,
) -> None:
    """Copies both ways until both have ended."""
    await asyncio.gather(_copy(reader, out_writer), _copy(out_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _refuse(writer: asyncio.StreamWriter, status: int, error: Exception) -> None:
    text = (str(error) or type(error).__name__).encode("utf-8", "replace")[:1000]
    words = {403: "Forbidden", 502: "Bad Gateway"}
    head = (
        f"HTTP/1.1 {status} {words[status]}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    )
    with suppress(OSError):
        writer.write(head.encode() + text)
        await writer.drain()

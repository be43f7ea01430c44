"""The listeners of the server: the Unix socket and the TCP address."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from agent_md.api.tcp_connections import ConnectionQuota, TcpConnection, TcpLimits

__all__ = ["WebServers"]

_CONNECTIONS_S = 1
_BACKLOG = 512


class WebServers:
    """One application on several sockets. What comes by TCP has at most half of the connections, and limits of its own,
    so that it takes nothing from the Unix socket."""

    def __init__(
        self, application: FastAPI, sockets: Sequence[socket.socket], most: int, limits: TcpLimits | None = None
    ) -> None:
        """`most` connections together; with `limits` for those by TCP."""
        self.listening = asyncio.Event()
        """Set when all take connections."""
        by_tcp = [sock for sock in sockets if sock.family != socket.AF_UNIX]
        tcp = partial(TcpConnection, quota=ConnectionQuota(most // 2), limits=limits or TcpLimits())
        # The loop takes so many at once before any of them is looked at.
        for_tcp = _config(application, None, tcp, backlog=min(_BACKLOG, max(1, most // 2)))
        for_user = _config(application, most // 2 if by_tcp else most)
        self._for_tcp, self._for_user, self._most = for_tcp, for_user, most
        self._servers = [(_Server(for_tcp if sock in by_tcp else for_user), sock) for sock in sockets]
        self._group: asyncio.TaskGroup | None = None

    async def serve(self) -> None:
        """Serves until `stop`, or until one of them fails."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            for server, sock in self._servers:
                group.create_task(server.serve([sock]))
            for server, _ in self._servers:
                await server.listening.wait()
            self.listening.set()

    async def add(self, sock: socket.socket) -> None:
        """Serves on one more TCP socket from now on, and closes it at the end. `serve` is running."""
        assert self._group is not None
        self._for_user.limit_concurrency = self._most // 2
        server = _Server(self._for_tcp)
        self._servers.append((server, sock))
        self._group.create_task(server.serve([sock]))
        await server.listening.wait()

    def stop(self) -> None:
        """Takes no more connections; those that are open have a second."""
        for server, _ in self._servers:
            server.should_exit = True


class _Server(uvicorn.Server):
    """Signals are ours: a stop is the same whoever asks for it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


def _config(
    application: FastAPI, most: int | None, connection: Any = "h11", *, backlog: int = _BACKLOG
) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=cast(Any, connection),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        backlog=backlog,
        limit_concurrency=most,
        timeout_graceful_shutdown=_CONNECTIONS_S,
    )

"""The server process: one a workspace, listening on a Unix socket and perhaps on TCP, driving what nobody drives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from agent_md import __version__
from agent_md.api.address import Address, ServerLock, socket_path, stored_key, write_address
from agent_md.api.application import make_application
from agent_md.api.context import ServerContext
from agent_md.app import App
from agent_md.engines.hub import Hub
from agent_md.engines.local import LocalEngine
from agent_md.errors import StateDirUnusable, UsageError

__all__ = ["Listen", "serve"]

log = logging.getLogger(__name__)

_GRACE_S = 3.0
"""How long what runs may take to end."""
_CONNECTIONS_S = 1
_BACKLOG = 512


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen besides the Unix socket. TCP always has a key: the given one, or one that is made and kept."""

    host: str | None = None
    port: int | None = None
    key: str | None = None

    @property
    def tcp(self) -> bool:
        return self.host is not None or self.port is not None


def serve(app: App, listen: Listen, on_ready: Callable[[Address], None]) -> None:
    """Serves until SIGTERM, SIGINT, SIGHUP or `POST /shutdown`; then everything is stored, and it returns.

    `on_ready` is called once recovery has begun and connections are taken. Raises ServerRunning when this workspace
    has a live server, UsageError when the TCP address cannot be had, StateDirUnusable.
    """
    store = app.store  # makes the state folder
    lock = ServerLock(app.settings.state_dir)
    try:
        with _sockets(app, listen) as (sockets, address, key):
            try:
                asyncio.run(_serve(app, sockets, key, lambda: _ready(app, address, on_ready)))
            finally:
                write_address(app.settings.state_dir, None)
    finally:
        lock.close()
    del store


def _ready(app: App, address: Address, on_ready: Callable[[Address], None]) -> None:
    write_address(app.settings.state_dir, address)
    on_ready(address)


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


async def _serve(app: App, sockets: list[socket.socket], key: str | None, ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    hub = Hub(app.store)
    engine = LocalEngine(app.store, app.runner(), hub, app.worker, max_concurrent=app.settings.server.max_concurrent)
    context = ServerContext(app, hub, engine, stop.set)
    server = _Server(
        uvicorn.Config(
            make_application(context, key),
            log_config=None,
            access_log=False,
            lifespan="off",
            backlog=_BACKLOG,
            timeout_graceful_shutdown=_CONNECTIONS_S,
        )
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    engine.sweep()
    background = [asyncio.create_task(part()) for part in (hub.run, engine.run, context.watch_agents)]
    serving = asyncio.create_task(server.serve(sockets))
    listening, stopped = asyncio.create_task(server.listening.wait()), asyncio.create_task(stop.wait())
    await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
    if listening.done():
        ready()
    await asyncio.wait({serving, stopped, *background}, return_when=asyncio.FIRST_COMPLETED)
    log.info("stopping")
    context.finish()
    server.should_exit = True
    background[1].cancel()
    await asyncio.gather(engine.stop(_GRACE_S), serving, return_exceptions=True)
    for task in (*background, listening, stopped):
        task.cancel()
    for result in await asyncio.gather(*background, listening, stopped, serving, return_exceptions=True):
        if isinstance(result, Exception):
            log.error("a part of the server failed", exc_info=result)


@contextlib.contextmanager
def _sockets(app: App, listen: Listen) -> Iterator[tuple[list[socket.socket], Address, str | None]]:
    path = socket_path(app.settings.state_dir, app.settings.environ)
    opened = [_local_socket(path)]
    try:
        key, key_file, url = None, None, None
        if listen.tcp:
            tcp = _tcp_socket(listen.host or "127.0.0.1", listen.port or 0)
            opened.append(tcp)
            host, port = tcp.getsockname()[:2]
            url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            key = listen.key
            if not key:
                key, made = stored_key(app.settings.state_dir)
                key_file = str(made)
        yield opened, Address(os.getpid(), __version__, str(path), url, key_file), key
    finally:
        for item in opened:
            item.close()
        path.unlink(missing_ok=True)


def _local_socket(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)  # a dead server's: we hold the lock
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        made.bind(str(path))
    except OSError as error:
        made.close()
        raise StateDirUnusable(f"the socket {path} cannot be made: {error.strerror}") from error
    finally:
        os.umask(mask)
    return made


def _tcp_socket(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
    except OSError as error:
        raise UsageError(f"{host}:{port} cannot be listened on: {error.strerror or error}") from error
    return made

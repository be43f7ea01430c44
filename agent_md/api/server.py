"""The server process: one per workspace, listens on a Unix socket and optionally on TCP, and drives queued executions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agent_md import __version__
from agent_md.api.address import Address, ServerLock, socket_path, stored_key, write_address
from agent_md.api.application import AddPages, make_application
from agent_md.api.context import ServerContext
from agent_md.api.descriptors import connection_limit, log_exhaustion_rarely
from agent_md.api.loop_watchdog import LoopWatchdog
from agent_md.api.page_listener import PageListener
from agent_md.api.tcp_socket import tcp_socket, url_of
from agent_md.api.web_servers import WebServers
from agent_md.app import App
from agent_md.engines.hub import Hub
from agent_md.engines.local import DriveAlone, LocalEngine
from agent_md.errors import StateDirUnusable
from agent_md.stores.workers import close_in_children, keep_in_children

__all__ = ["Listen", "serve"]

log = logging.getLogger(__name__)

_GRACE_S = 3.0
"""How long what runs may take to end."""
_HAND_OVER_S = 10.0
"""How long what runs may take to where nothing of it is in flight, before the server starts itself anew."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to listen besides the Unix socket. TCP always has a key: the given one, or one that is made and kept."""

    host: str | None = None
    port: int | None = None
    key: str | None = None

    @property
    def tcp(self) -> bool:
        return self.host is not None or self.port is not None


def serve(
    app: App,
    listen: Listen,
    on_ready: Callable[[Address], None],
    drive_alone: DriveAlone,
    add_pages: AddPages | None = None,
) -> bool:
    """Serves until SIGTERM, SIGINT, SIGHUP or `POST /shutdown`; then everything is stored, and it returns. True when it
    ended because `app.hand_back` was asked: the caller is to start the server anew, in a process without these threads.

    `drive_alone` drives executions that may have ended a process, `add_pages` adds the pages for people. `on_ready` is called once recovery has begun and connections are taken. Raises ServerRunning when this workspace
    has a live server, UsageError when the TCP address cannot be had, StateDirUnusable.
    """
    app.open()
    folder = app.settings.state_dir
    lock = ServerLock(folder)
    try:
        write_address(folder, None)  # a dead server's
        with _sockets(app, listen) as (sockets, address, key):

            def told(now: Address) -> None:
                write_address(folder, now)
                if not now.stopping:
                    on_ready(now)

            try:
                pages = PageListener(folder, address, key or listen.key)
                return asyncio.run(_serve(app, sockets, key, pages, told, drive_alone, add_pages))
            finally:
                write_address(folder, None)
    finally:
        lock.close()


async def _serve(
    app: App,
    sockets: list[socket.socket],
    key: str | None,
    pages: PageListener,
    tell: Callable[[Address], None],
    drive_alone: DriveAlone,
    add_pages: AddPages | None,
) -> bool:
    """`tell` is called when the server is ready, and when it begins to stop. Raises what ended it unasked; gives whether
    it was asked to give its work back."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    log_exhaustion_rarely(loop)

    ordered = asyncio.Event()

    def note_stop_request() -> None:
        app.note_stop_request()
        ordered.set()
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, note_stop_request)
    hub = Hub(app.store)

    def places() -> int:
        return app.settings.server.max_concurrent

    engine = LocalEngine(app.store, app.runner(), hub, app.worker, max_concurrent=places, drive_alone=drive_alone)
    context = ServerContext(app, hub, engine, note_stop_request)
    application = make_application(context, key, add_pages)
    server = WebServers(application, sockets, connection_limit())
    context.listen_for_pages = partial(pages.listen, application, server)
    engine.sweep()
    triggers = app.services.trigger_loop(hub.stored, context.firing_skipped)
    context.watches = app.services.watch_loop(triggers.wake)
    await context.watches.begin()
    driving = asyncio.create_task(engine.run())
    serving = asyncio.create_task(server.serve())
    beside = [hub.run(), context.reloading.loop.run(), context.sweep(), app.services.webhooks().run(hub)]
    beside += [triggers.run(), context.watches.run(), context.expire_sessions()]
    watching = [asyncio.create_task(part) for part in beside]
    listening, stopped = (asyncio.create_task(event.wait()) for event in (server.listening, stop))
    parts = {driving, serving, *watching}
    with LoopWatchdog(), app.hand_back.listening(lambda _: loop.call_soon_threadsafe(stop.set)):
        await asyncio.wait({listening, *parts}, return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            tell(pages.address)
        ended, _ = await asyncio.wait({stopped, *parts}, return_when=asyncio.FIRST_COMPLETED)
    reason = app.hand_back.reason
    log.info("stopping" if reason is None else f"starting anew: {reason}")
    with contextlib.suppress(StateDirUnusable):  # whoever reads the old address waits a little longer
        tell(replace(pages.address, stopping=True))
    driving.cancel()  # nothing new is begun
    if reason is not None:
        await _until_either(engine.stop(_HAND_OVER_S, hand_over=True), ordered.wait())
    context.finish()
    server.stop()
    await asyncio.gather(engine.stop(_GRACE_S), serving, return_exceptions=True)
    for task in (*watching, listening, stopped):
        task.cancel()
    await asyncio.gather(driving, *watching, listening, stopped, return_exceptions=True)
    for task in ended - {stopped}:
        task.result()
    return reason is not None and not ordered.is_set()


async def _until_either(*waits: Coroutine[Any, Any, object]) -> None:
    """Returns when one of them has ended; the others are cut."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _sockets(app: App, listen: Listen) -> Iterator[tuple[list[socket.socket], Address, str | None]]:
    path = socket_path(app.settings.state_dir, app.settings.environ)
    opened = [_local_socket(path)]
    descriptors: list[int] = []
    try:
        key, key_file, url = None, None, None
        if listen.tcp:
            tcp = tcp_socket(listen.host or "127.0.0.1", listen.port or 0)
            opened.append(tcp)
            url = url_of(tcp)
            key = listen.key
            if not key:
                key, made = stored_key(app.settings.state_dir)
                key_file = str(made)
        descriptors = [item.fileno() for item in opened]
        for descriptor in descriptors:  # a child that outlives us must not hold our addresses
            close_in_children(descriptor)
        yield opened, Address(os.getpid(), __version__, str(path), url, key_file), key
    finally:
        for descriptor in descriptors:
            keep_in_children(descriptor)
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
        raise StateDirUnusable(f"the socket {path} cannot be made: {error.strerror or error}") from error
    finally:
        os.umask(mask)
    return made

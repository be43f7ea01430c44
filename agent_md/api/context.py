"""The state that routes share: the opened workspace, the hub, and counters of this process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from agent_md.agents.names import name_key
from agent_md.agents.registry import Registry
from agent_md.app import App
from agent_md.engines.hub import Hub
from agent_md.errors import AgentmdError, UsageError
from agent_md.executions.execution import Execution
from agent_md.executions.firings import Firing
from agent_md.executions.grants import GrantScope
from agent_md.executions.requests import Request as HumanRequest
from agent_md.ports.engine import Engine
from agent_md.ports.store import NewAnswer, Store
from agent_md.reloading.loop import Announcement
from agent_md.serialization import firing_json, request_json
from agent_md.triggers.watch_loop import WatchLoop

__all__ = ["ANONYMOUS", "Context", "ServerContext"]

T = TypeVar("T")

log = logging.getLogger(__name__)

ANONYMOUS = "api"
"""Who answers over HTTP, and is shown what is asked, without a name."""

_MOST_ANNOUNCEMENTS = 1000
_CHECKS = 2
"""Answers that are checked against a schema at once; the threads for it are also those of tools."""
_EXPIRY_S = (1.0, 60.0)
_SWEEP_S = 86_400.0
"""How often is looked for expired sessions, at least and at most."""


class ServerContext:
    """Nothing in here matters after a restart."""

    def __init__(self, app: App, hub: Hub, engine: Engine, stop: Callable[[], None]) -> None:
        self.app = app
        self.hub = hub
        self.engine = engine
        self.stop = stop
        self.started = time.monotonic()
        self.stopping = False
        self.listen_for_pages: Callable[[], Awaitable[str]] = _nowhere
        """Listens on TCP, if that is not done yet, and gives the address."""
        self.streams = 0
        self.watches: WatchLoop | None = None
        self.hooks = app.services.hook_receiver(self.firing_skipped)
        self._checks = asyncio.Semaphore(_CHECKS)
        self._announced_to: dict[asyncio.Queue[Announcement], asyncio.AbstractEventLoop] = {}
        self.reloading = app.services.reloading(self.announce)

    @property
    def store(self) -> Store:
        return self.app.store

    async def aside(self, function: Callable[[], T]) -> T:
        """Runs the function on a thread, and returns its result or raises its exception. For everything that reads
        files of others or loads their tools, since this may be slow and must not block the event loop."""
        return await self.app.assembly.tool_threads.aside(function)

    async def registry(self) -> Registry:
        """As `App.registry`."""
        return await asyncio.to_thread(lambda: self.app.registry)

    @contextlib.contextmanager
    def counted_stream(self) -> Iterator[None]:
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def settle(self) -> None:
        """Requests that are overdue now are not open any more."""
        if self.store.settle_overdue():
            self.hub.stored()

    def begun(self, execution: Execution) -> None:
        """Tells of a new execution; who waits for its session does not know of this turn yet."""
        if execution.session_id is not None:
            self.hub.wake(frozenset(self.store.sessions.under_way(execution.agent, execution.session_id)))
        self.hub.stored()

    async def new_answer(
        self, request: HumanRequest, response: Any, *, scopes: Sequence[GrantScope] | None = None
    ) -> NewAnswer:
        """As `App.new_answer`.

        To check a schema, or arguments that were edited, may take seconds, in which everything else goes on."""
        execution = self.store.execution(request.execution_id)
        if request.response_schema is None:
            return await self.aside(lambda: self.app.responder.new_answer(execution, request, response, scopes=scopes))
        async with self._checks:
            return await asyncio.to_thread(self.app.responder.new_answer, execution, request, response)

    async def agent_name(self, name: str) -> str:
        """The name as the agent's file writes it; one that no usable file has is left as it is."""
        try:
            return (await self.registry()).get(name).spec.name
        except UsageError:
            return name

    def names_like(self, name: str) -> tuple[str, ...]:
        """The names under which an agent has executions: its file may have written it otherwise before."""
        return tuple(known for known in self.store.agent_names() if name_key(known) == name_key(name))

    async def open_requests_json(self, execution: Execution, *, to: str = ANONYMOUS) -> list[dict[str, Any]]:
        """The open requests of an execution and of those below it as JSON, oldest first, which are shown `to` somebody."""
        requests = self.store.requests(execution.id, family=True)
        return await self.requests_json([request for request in requests if request.open], under=execution, to=to)

    async def requests_json(
        self, requests: Sequence[HumanRequest], *, under: Execution | None = None, to: str = ANONYMOUS
    ) -> list[dict[str, Any]]:
        """The requests as JSON, as those of the execution `under` which they are listed, or of their roots; they are shown
        `to` somebody."""
        self.store.showings.record(requests, to)
        drift = await asyncio.to_thread(self.app.drift_of, requests) if requests else {}
        return [request_json(request, drift=drift[request.id], under=under) for request in requests]

    async def expire_sessions(self) -> None:
        """Deletes sessions that have rested for `server.session_ttl` seconds, if it is set, until cancelled."""
        shortest, longest = _EXPIRY_S
        while True:
            ttl = self.app.settings.server.session_ttl
            await asyncio.sleep(longest if ttl is None else min(longest, max(shortest, ttl / 10)))
            ttl = self.app.settings.server.session_ttl
            if ttl is None:
                continue
            try:
                await asyncio.to_thread(self.store.sessions.expire, ttl)
            except AgentmdError:
                log.exception("expired sessions could not be deleted; trying again")

    async def sweep(self) -> None:
        """Throws away what is old and not needed, now and every day, until cancelled."""
        stop = threading.Event()
        try:
            while True:
                try:
                    await asyncio.to_thread(self._sweep, stop)
                except AgentmdError:
                    log.exception("what is old could not be removed; trying again tomorrow")
                await asyncio.sleep(_SWEEP_S)
        finally:
            stop.set()

    def _sweep(self, stop: threading.Event) -> None:
        settings = self.app.settings
        if (days := settings.retention.executions_days) is not None:
            log.info("removed %s old executions", self.app.retention.remove_executions(days, stop.wait))
        if not stop.is_set() and (count := self.app.retention.thin_firings(stop.wait)):
            log.info("removed %s old firings that were skipped", count)
        if (days := settings.defaults.checkpoint_retention_days) is not None and not stop.is_set():
            log.info("removed %s old threads of checkpoints", self.app.retention.threads(stop.wait).purge(days).removed)

    def firing_skipped(self, firing: Firing) -> None:
        """Tells of a firing that started nothing."""
        self.announce("trigger_skipped", firing_json(firing))

    def announce(self, name: str, data: dict[str, Any]) -> None:
        """Tells all who follow everything. May be called on any thread."""
        for queue, loop in list(self._announced_to.items()):
            with contextlib.suppress(RuntimeError):  # the server has ended
                loop.call_soon_threadsafe(self._tell, queue, (name, data))

    def _tell(self, queue: asyncio.Queue[Announcement], announcement: Announcement) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            queue.put_nowait(announcement)
        self.hub.wake_all()

    @contextlib.contextmanager
    def announcements(self) -> Iterator[asyncio.Queue[Announcement]]:
        queue: asyncio.Queue[Announcement] = asyncio.Queue(_MOST_ANNOUNCEMENTS)
        self._announced_to[queue] = asyncio.get_running_loop()
        try:
            yield queue
        finally:
            self._announced_to.pop(queue, None)

    def finish(self) -> None:
        """Ends all streams."""
        self.stopping = True
        self.hub.wake_all()


async def _nowhere() -> str:
    raise UsageError("this server has no address for pages")


def _context(request: Request) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


Context = Annotated[ServerContext, Depends(_context)]
"""What a route asks for to get the server's context."""

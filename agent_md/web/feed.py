"""News for all open pages: found once for all of them, however many there are."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from agent_md.api.context import ServerContext
from agent_md.api.sse import COMMENT, sse_message
from agent_md.errors import AgentmdError
from agent_md.executions.execution import Event
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request
from agent_md.executions.states import EventType, Outcome
from agent_md.web.rendering import rendered
from agent_md.web.request_view import entry_of
from agent_md.wording.request_text import decision_text

__all__ = ["Feed", "News"]

log = logging.getLogger(__name__)

_TYPES = (EventType.INTERRUPT, EventType.RESUMED, EventType.RETRACTED, EventType.COMPLETE)
_BATCH = 500
_MOST = 200
"""Messages kept for a reader that does not read; it is told to load the page again after that."""
_IDLE_S = 30.0


class News:
    """What one reader has not read yet."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(_MOST)

    def tell(self, message: bytes) -> None:
        try:
            self._queue.put_nowait(message)
        except asyncio.QueueFull:
            while not self._queue.empty():
                self._queue.get_nowait()
            self._queue.put_nowait(sse_message("resync", {}))

    async def next(self, seconds: float) -> bytes:
        """The next message, or a comment after some seconds without one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._queue.get()
        return COMMENT


class Feed:
    """Follows the store while somebody reads."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._readers: set[News] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def subscribed(self) -> Iterator[News]:
        """The news from now on, the number of open requests first."""
        news = News()
        news.tell(sse_message("count", {"open": self._context.store.count_open_requests()}))
        self._readers.add(news)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        try:
            yield news
        finally:
            self._readers.discard(news)

    async def _follow(self) -> None:
        store, hub = self._context.store, self._context.hub
        seen = store.last_event()
        while self._readers and not self._context.stopping:
            generation = hub.generation
            try:
                seen = self._tell_after(seen)
            except AgentmdError:
                log.exception("pages could not be told what has changed")
            await hub.wait(generation, _IDLE_S)
        for news in self._readers:  # the server stops: they are to look whether it does
            news.tell(COMMENT)

    def _tell_after(self, seen: int) -> int:
        store = self._context.store
        newest, touched = store.touched(seen)
        if newest == seen:
            return seen
        opened: dict[RequestId, Request] = {}
        closed: dict[RequestId, Request] = {}
        events = store.all_events(_TYPES, after=seen, limit=_BATCH)
        if len(events) == _BATCH:  # more than a page shows
            self._tell("resync", {})
            return newest
        for event in events:
            for request in self._requests_of(event):
                (opened if request.open else closed)[request.id] = request
        count = store.count_open_requests()
        for request in opened.values():
            entry = entry_of(request)
            row = rendered("entry.html", entry=entry, selected=None)
            self._tell("opened", {"id": request.id, "order": entry.order, "row": row, "open": count})
        for request in closed.values():
            self._tell("closed", {"id": request.id, "text": decision_text(request), "open": count})
        self._tell("touched", {"executions": sorted(touched), "open": count})
        return newest

    def _requests_of(self, event: Event) -> list[Request]:
        store = self._context.store
        if event.type is EventType.COMPLETE:  # what was still open was cancelled
            asked = store.requests(event.execution_id)
            return [r for r in asked if r.answer is not None and r.answer.outcome is Outcome.CANCELLED]
        request = store.request(event.data["request_id"])
        return [request]

    def _tell(self, name: str, data: dict[str, object]) -> None:
        message = sse_message(name, data)
        for news in self._readers:
            news.tell(message)

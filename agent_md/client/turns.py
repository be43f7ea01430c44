"""Sends messages of a session exactly once and follows its turns.

Nothing is ever asked of the server without a pause after an answer that came at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, repeat
from typing import Any, TypeVar

from agent_md.client.sessions import Interrupt, RemoteSession, SessionsClient
from agent_md.errors import ServerUnreachable
from agent_md.executions.sessions import SessionStatus

__all__ = ["SessionTurns", "pauses", "retry_delays"]

T = TypeVar("T")

_POLL_S = 30.0
_HELD_S = 1.0
"""A server that answers a long poll faster than this may not support long polls; then the next one is delayed."""
_PATIENCE_S = 300.0
"""How long a server may be unreachable."""


def retry_delays(patience: float = _PATIENCE_S) -> Iterator[float]:
    """Seconds to wait before each new attempt, longer and longer, until together they are `patience`."""
    waited, delay = 0.0, 0.25
    while waited < patience:
        yield delay
        waited += delay
        delay = min(2 * delay, 10.0)


def pauses() -> Iterator[float]:
    """Seconds between looks at a session in which nothing changes."""
    return chain((0.2, 0.5, 1.0, 2.0), repeat(5.0))


def _looks() -> Iterator[float]:
    """Seconds between looks whether a question is still open."""
    return chain((0.5,), repeat(1.0, 30), repeat(5.0))


class SessionTurns:
    """One session at a server, which may be unreachable for minutes; then ServerUnreachable is raised.

    `tell` is called with a line when the server has been unreachable twice, and when it answers again.
    """

    def __init__(self, client: SessionsClient, session: RemoteSession, tell: Callable[[str], None]) -> None:
        self.session = session
        """As it was last seen."""
        self._client = client
        self._tell = tell

    @property
    def under_way(self) -> bool:
        """Whether, when it was last looked at, a turn had not ended."""
        return self.session.status in (SessionStatus.RUNNING, SessionStatus.INTERRUPTED)

    async def look(self) -> RemoteSession:
        """The session as it is now."""
        self.session = await self._insist(partial(self._client.get, self.session.id))
        return self.session

    async def post(self, text: str) -> None:
        """Sends a message, and never twice: where it may have arrived the session tells whether it did."""
        attempt = partial(self._client.post_message, self.session.id, text)
        try:
            await self._insist(attempt, unless=lambda error: error.may_be_done)
        except ServerUnreachable as error:
            if not (error.may_be_done and await self._has_moved()):
                raise

    async def _has_moved(self) -> bool:
        before, now = self.session, await self.look()
        return self.under_way or (before.status, before.response, before.error) != (
            now.status,
            now.response,
            now.error,
        )

    async def settled(self) -> RemoteSession:
        """The session as soon as it is not running."""
        between = pauses()
        while True:
            began = time.monotonic()
            self.session = await self._insist(self._poll())
            if self.session.status is not SessionStatus.RUNNING:
                return self.session
            if time.monotonic() - began < _HELD_S:
                await asyncio.sleep(next(between))

    def _poll(self) -> Callable[[], Awaitable[RemoteSession]]:
        """A look that waits; after it was cut, as proxies do, looks that do not wait."""
        waits = chain((_POLL_S,), repeat(None))
        return lambda: self._client.get(self.session.id, wait=next(waits))

    async def answer(self, interrupt: Interrupt, value: Any) -> None:
        """Answers an interrupt. Raises RequestRefused."""
        await self._insist(partial(self._client.resume, self.session.id, interrupt.id, value))

    async def closed(self, interrupt: Interrupt) -> None:
        """Returns as soon as the server does not show the interrupt as open; raises what ends the chat."""
        for pause in _looks():
            await asyncio.sleep(pause)
            with suppress(ServerUnreachable):
                session = await self._client.get(self.session.id)
                if interrupt.id not in {shown.id for shown in session.interrupts}:
                    return

    async def _insist(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        unless: Callable[[ServerUnreachable], bool] = lambda _: False,
    ) -> T:
        """The result of the attempt, repeated while the server is unreachable. The first failure is not reported."""
        failures, delays = 0, retry_delays()
        while True:
            try:
                result = await attempt()
            except ServerUnreachable as error:
                delay = next(delays, None)
                if delay is None or unless(error):
                    raise
                failures += 1
                if failures == 2:
                    self._tell(f"{error}; trying again for {_PATIENCE_S / 60:.0f} min")
                await asyncio.sleep(delay)
            else:
                if failures >= 2:
                    self._tell("the server answers again")
                return result

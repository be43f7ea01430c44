"""Long polling: waits until a session is idle or interrupted, at most `timeout` seconds."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator

from fastapi import Request

from agent_md.api.context import ServerContext
from agent_md.errors import UnknownSession
from agent_md.executions.sessions import Session, SessionStatus

__all__ = ["while_running"]

_LOOK_S = 10.0
"""How often is looked for what no event of the turn tells."""


async def while_running(context: ServerContext, found: Session, timeout: float | None, request: Request) -> Session:
    """The session as soon as it is not `running` any more. After `timeout` seconds, when the client has disconnected,
    and when the server stops, the session in its current state. Raises UnknownSession once it is deleted, even if
    another one has its id."""
    end = math.inf if timeout is None else time.monotonic() + timeout
    with context.counted_stream():
        async with _departure(request) as left:
            while True:
                session = context.store.sessions.get(found.agent, found.id)
                if session.created_at != found.created_at:
                    raise UnknownSession(f"session not found: the session {found.id} of {found.agent} was deleted")
                rest = end - time.monotonic()
                over = session.status is not SessionStatus.RUNNING or context.stopping or left.done() or rest <= 0
                if over:
                    return session
                # Nothing is awaited since the look, so what comes after it is published after this begins.
                await _news(context, session, min(rest, _LOOK_S), left)


async def _news(context: ServerContext, session: Session, seconds: float, left: asyncio.Task[None]) -> None:
    """Returns when something happens in one of the session's turns, after `seconds`, and when the client has left."""
    with contextlib.ExitStack() as stack:
        turns = context.store.sessions.under_way(session.agent, session.id)
        watches = [stack.enter_context(context.hub.watch(turn, pieces=False)) for turn in turns]
        if not watches:  # another process has ended the last one since the look
            return
        news = [asyncio.create_task(watch.wait(seconds)) for watch in watches]
        await asyncio.wait({*news, left}, return_when=asyncio.FIRST_COMPLETED)
        for task in news:
            task.cancel()


@contextlib.asynccontextmanager
async def _departure(request: Request) -> AsyncIterator[asyncio.Task[None]]:
    """A task that is done when the client has left."""

    async def listen() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    task = asyncio.create_task(listen())
    try:
        yield task
    finally:
        task.cancel()

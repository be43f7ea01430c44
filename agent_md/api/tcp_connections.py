"""Limits for TCP connections: their number, and the time that a request may take."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["ConnectionQuota", "TcpConnection", "TcpLimits"]


@dataclass(frozen=True, slots=True)
class TcpLimits:
    """Seconds for the head of a request, or its beginning after an answer; for its body; and in which the other side must
    read something of what is sent."""

    head: float = 10.0
    body: float = 60.0
    write: float = 60.0


class ConnectionQuota:
    """At most `most` connections. A new one takes the place of the one from which a whole request has been awaited for the
    longest time; where every one has sent its request, the new one is closed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[TcpConnection] = set()
        self._awaited: dict[TcpConnection, None] = {}

    def admit(self, connection: TcpConnection) -> None:
        if len(self._open) >= self._most:
            longest = next(iter(self._awaited), connection)
            self.leave(longest)
            longest.transport.abort()
            if longest is connection:
                return
        self._open.add(connection)

    def await_request(self, connection: TcpConnection, awaited: bool) -> None:
        """Notes whether the connection owes a part of a request, from now on."""
        if not awaited:
            self._awaited.pop(connection, None)
        elif connection in self._open:
            self._awaited.setdefault(connection)

    def leave(self, connection: TcpConnection) -> None:
        self._open.discard(connection)
        self._awaited.pop(connection, None)


class TcpConnection(H11Protocol):
    """uvicorn's HTTP/1.1, ended when a head, a body or a reader is too slow."""

    def __init__(self, *args: Any, quota: ConnectionQuota, limits: TcpLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._quota = quota
        self._times = limits
        self._owed: type[h11.IDLE] | type[h11.SEND_BODY] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._quota.admit(self)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self._times.write, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        _cancel(self._unread)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.get_write_buffer_size():  # closing waits for its reader
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._quota.leave(self)
        _cancel(self._deadline)
        _cancel(self._unread)

    def _watch(self) -> None:
        """Sets the deadline for what the other side owes now. More of the same does not move it."""
        state = self.conn.their_state
        owed = state if state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing() else None
        if owed is self._owed:
            return
        self._owed = owed
        _cancel(self._deadline)
        self._quota.await_request(self, False)
        if owed is not None:
            seconds = self._times.head if owed is h11.IDLE else self._times.body
            self._deadline = self.loop.call_later(seconds, self.transport.abort)
            self._quota.await_request(self, True)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()

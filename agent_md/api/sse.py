"""Server-sent events: responses, heartbeats, `Last-Event-ID`, and streamed pieces of messages."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from fastapi.sse import EventSourceResponse, format_sse_event

from agent_md.engines.hub import PartialText, Watch
from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId
from agent_md.ports.store import Store

__all__ = ["COMMENT", "HEARTBEAT_S", "DeltaStream", "Heartbeat", "position", "sse_message", "sse_response", "turn_of"]

HEARTBEAT_S = 8.0
"""Clients may take a line that is silent for 10 s for a dead one, and what is late on its way counts too."""

COMMENT = format_sse_event(comment="alive")


def sse_response(stream: AsyncIterator[bytes]) -> EventSourceResponse:
    """The stream as a response that no proxy holds back."""
    return EventSourceResponse(stream, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})


def sse_message(event: str, data: dict[str, Any], number: int | None = None) -> bytes:
    """One event; `number` is that of a stored one, with which a client that comes back goes on."""
    return format_sse_event(event=event, data_str=json.dumps(data), id=None if number is None else str(number))


def position(last_event_id: str | None, known: Callable[[int], bool]) -> tuple[int | None, bool]:
    """The event after which a client continues, None without one, and whether the client must be told that the stream
    starts again."""
    if last_event_id is None or last_event_id == "":
        return None, False
    if last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) < 19 and known(int(last_event_id)):
        return int(last_event_id), False
    return None, True


class Heartbeat:
    """When something must be sent so that the line is never silent for longer than `seconds`."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._sent = clock()

    def sent(self) -> None:
        """Something is sent now. Only this puts the next heartbeat off, nothing that is only looked at."""
        self._sent = self._clock()

    @property
    def left(self) -> float:
        """Seconds until a heartbeat is due."""
        return max(0.0, self._sent + self._seconds - self._clock())


class DeltaStream:
    """The pieces of one execution's messages for one client: each once and in order, before its message is whole.

    A client that joins in the middle of a message is told to `restart`, and all of its text so far; so is one that comes
    back (`resumed`), which may have had pieces of it before.
    """

    def __init__(self, store: Store, watch: Watch, execution_id: ExecutionId, *, resumed: bool) -> None:
        self._execution_id = execution_id
        self._texts = watch.texts[execution_id]
        self._void = resumed
        self._told: PartialText | None = None
        self._count = 0
        if self._texts and store.model_step(execution_id, self._texts[0].turn) is not None:
            self._texts.popleft()  # it is whole, and told as such
        self._joined = self._texts[0] if self._texts and self._texts[0].pieces else None

    def news(self, upto: int | None = None) -> Iterator[bytes]:
        """The pieces since the last call: of the messages up to `upto`, which is about to be sent whole, or of all."""
        while self._texts and (upto is None or self._texts[0].turn <= upto):
            yield from self._of(self._texts[0])
            if upto is None and len(self._texts) == 1:
                return  # this one goes on
            self._texts.popleft()

    def _of(self, text: PartialText) -> Iterator[bytes]:
        data: dict[str, Any] = {"execution_id": self._execution_id, "turn": text.turn}
        if text is not self._told:
            again = self._told is not None and self._told.turn == text.turn
            if again or self._void or text is self._joined or text.retry is not None:
                attempt = {} if text.retry is None else dict(zip(("attempt", "attempts"), text.retry, strict=True))
                yield sse_message("delta", {**data, "restart": True, **attempt})
            self._told, self._count, self._void = text, 0, False
        pieces, self._count = text.pieces[self._count :], len(text.pieces)
        if pieces:
            yield sse_message("delta", {**data, "text": "".join(pieces)})


def turn_of(event: Event) -> int:
    """The number of the AI message that an `ai` event holds."""
    return int(event.key.partition(":")[2])

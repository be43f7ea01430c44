"""The event stream of a session: the events of its turns, one turn after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from agent_md.api.context import ServerContext
from agent_md.api.event_streams import event_line, told
from agent_md.api.sse import COMMENT, HEARTBEAT_S, DeltaStream, Heartbeat, position, sse_message
from agent_md.engines.hub import Watch
from agent_md.errors import UnknownSession
from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.session_interrupts import decision_view
from agent_md.executions.sessions import Session
from agent_md.executions.states import EventType

__all__ = ["session_stream"]

_BATCH = 200


async def session_stream(
    context: ServerContext, session: Session, last_event_id: str | None, *, heartbeat: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """The events of the session's turns from the position on, without one from the first event of its last turn on.

    It follows the turns to come, and ends when the session is deleted.
    """
    with context.counted_stream(), context.hub.watch(everything=True) as watch:
        turns = _Turns(context, session, watch, resumed=last_event_id is not None)
        after, anew = position(last_event_id, turns.has_event)
        if anew:
            yield sse_message("resync", {"session_id": session.id})
        seen = after if after is not None else 0 if anew else turns.begin_of_last()
        beat = Heartbeat(heartbeat)
        while not context.stopping:
            watch.clear()
            newest = context.store.last_event()
            events = turns.events(seen)
            if events is None:
                return
            for event in events:
                for text in await turns.told(event):
                    beat.sent()
                    yield text
                seen = event.seq
            if events:
                continue
            seen = max(seen, newest)  # what others did is not looked through again
            for text in turns.pieces():
                beat.sent()
                yield text
            await watch.wait(beat.left)
            if not beat.left:
                beat.sent()
                yield COMMENT


class _Turns:
    """The turns of one session for one client, who hears of each event once."""

    def __init__(self, context: ServerContext, session: Session, watch: Watch, *, resumed: bool) -> None:
        self._context = context
        self._watch = watch
        self._store = context.store
        self._session = session
        self._resumed = resumed
        self._pieces: dict[ExecutionId, DeltaStream] = {}

    def has_event(self, seq: int) -> bool:
        return [event.seq for event in self.events(seq - 1, limit=1) or ()] == [seq]

    def begin_of_last(self) -> int:
        """The position before the first event of the turn that is under way, or ended last."""
        turn = self._session.turn
        return 0 if turn is None else self._store.events(turn.id, limit=1)[0].seq - 1

    def events(self, after: int, limit: int = _BATCH) -> list[Event] | None:
        """The next ones; None when the session was deleted, also if there is another one of its id."""
        sessions, session = self._store.sessions, self._session
        try:
            if sessions.get(session.agent, session.id).created_at != session.created_at:
                return None
            self._follow(set(sessions.under_way(session.agent, session.id)))
            return sessions.events(session.agent, session.id, after=after, limit=limit)
        except UnknownSession:
            return None

    def _follow(self, under_way: set[ExecutionId]) -> None:
        for turn in under_way - self._pieces.keys():
            self._context.hub.follow(self._watch, turn)
            self._pieces[turn] = DeltaStream(self._store, self._watch, turn, resumed=self._resumed)
        self._resumed = False  # of the turns that begin later nothing was told before

    async def told(self, event: Event) -> list[bytes]:
        """The messages for an event, in order."""
        turn = event.execution_id
        line = await event_line(self._context, self._store.execution(turn), event)
        if event.type is EventType.INTERRUPT:
            line["interrupt"] = self._view(event)
        if event.type is EventType.COMPLETE and turn in self._pieces:
            self._context.hub.leave(self._watch, turn)
            del self._pieces[turn]
        return told(event, line, self._pieces.get(turn))

    def _view(self, event: Event) -> dict[str, Any]:
        """What is asked, as the session shows it."""
        request = self._store.request(RequestId(event.data["request_id"]))
        call = self._store.call(request.execution_id, request.position)
        assert call is not None, "a request is stored after its call"
        return decision_view(request, call)

    def pieces(self) -> list[bytes]:
        return [text for pieces in self._pieces.values() for text in pieces.news()]

"""Sessions in memory: the fake of `agent_md.ports.Sessions`, held to the same contract suite as the real one."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from agent_md.errors import ConversationBusy, SessionExists, TooManySessions, UnknownRequest, UnknownSession
from agent_md.executions.execution import Event, Execution, NewExecution
from agent_md.executions.history import (
    MESSAGE_EVENTS,
    conversation_of,
    lead_of,
    own_messages,
    shortened,
    window_start,
)
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Request
from agent_md.executions.sessions import Session, SessionStatus
from agent_md.executions.states import CallOutcome, Status
from tests.support.memory_state import MemoryState, as_json

__all__ = ["MemorySessions"]

_Key = tuple[str, str]


@dataclass(frozen=True)
class _Row:
    created_at: float
    state: tuple[dict[str, Any], ...] = ()
    floor: int = 0
    deleted: bool = False


class MemorySessions:
    """The `Sessions` port on the tables of a `MemoryState`."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    @property
    def _rows(self) -> dict[_Key, _Row]:
        return self._state.sessions

    def holds(self, execution: Execution) -> bool:
        """Whether it is a turn of a session that lives."""
        row = self._rows.get((execution.agent, execution.session_id or ""))
        return row is not None and not row.deleted and execution.id > row.floor

    def _live(self, agent: str, session_id: str) -> _Row:
        row = self._rows.get((agent, session_id))
        if row is None or row.deleted:
            raise UnknownSession(f"{agent} has no session {session_id}")
        return row

    def create(
        self, agent: str, session_id: str, *, state: Sequence[dict[str, Any]] = (), limit: int | None = None
    ) -> Session:
        with self._state.transaction():
            row = self._rows.get((agent, session_id))
            if row is not None and not row.deleted:
                raise SessionExists(f"{agent} has a session {session_id} already")
            live = self.count()
            if limit is not None and live >= limit:
                raise TooManySessions(f"there are {live} sessions, and {limit} are allowed")
            self._begin((agent, session_id), as_json(list(state)))
            return self.get(agent, session_id)

    def _begin(self, key: _Key, state: Sequence[dict[str, Any]] = ()) -> None:
        before = self._rows.get(key)
        self._state.version += 1
        self._rows[key] = _Row(self._state.now(), tuple(state), 0 if before is None else before.floor)

    def get(self, agent: str, session_id: str) -> Session:
        with self._state.lock:
            row = self._live(agent, session_id)
            turns = self._turns(agent, session_id, row.floor)
            active = [turn for turn in turns if not turn.status.final]
            ended = [turn for turn in turns if turn.status.final]
            turn = active[-1] if active else (ended[-1] if ended else None)
            changed = [row.created_at, *(t.created_at for t in turns)]
            if turn is not None and turn.finished_at is not None:
                changed.append(turn.finished_at)
            return Session(
                agent,
                session_id,
                self._status(active, turn),
                row.created_at,
                max(changed),
                deepcopy(turn),
            )

    def _status(self, active: list[Execution], turn: Execution | None) -> SessionStatus:
        asking = {request.root.execution_id for request in self._state.open_requests()}
        if any(execution.id in asking for execution in active):
            return SessionStatus.INTERRUPTED
        if active:
            return SessionStatus.RUNNING
        return SessionStatus.IDLE if turn is None or turn.status is Status.SUCCESS else SessionStatus.ERROR

    def _turns(self, agent: str, session_id: str | None, floor: int) -> list[Execution]:
        """In the order of their ends, those under way last."""
        found = [
            execution
            for execution in self._state.executions.values()
            if (execution.agent, execution.session_id, execution.parent_id) == (agent, session_id, None)
            and execution.id > floor
        ]
        under_way = self._state.last_seq + 1
        events = self._state.events
        return sorted(found, key=lambda x: (events[x.id]["complete"].seq if x.status.final else under_way, x.id))

    def listed(self, *, agent: str | None = None, session_id: str | None = None) -> list[Session]:
        with self._state.lock:
            keys = [
                key
                for key, row in self._rows.items()
                if not row.deleted and agent in (None, key[0]) and session_id in (None, key[1])
            ]
            return sorted((self.get(*key) for key in keys), key=lambda s: (-s.created_at, s.agent, s.id))

    def count(self) -> int:
        with self._state.lock:
            return sum(not row.deleted for row in self._rows.values())

    def turns(self, agent: str, session_id: str) -> list[ExecutionId]:
        with self._state.lock:
            row = self._rows.get((agent, session_id))
            if row is None or row.deleted:
                return []
            return sorted(t.id for t in self._turns(agent, session_id, row.floor))

    def under_way(self, agent: str, session_id: str) -> list[ExecutionId]:
        with self._state.lock:
            executions = self._state.executions
            return [turn for turn in self.turns(agent, session_id) if not executions[turn].status.final]

    def open_requests(self, agent: str, session_id: str) -> list[Request]:
        with self._state.lock:
            return [request for request in self._requests(agent, session_id, active=True) if request.open]

    def request(self, agent: str, session_id: str, request_id: RequestId) -> Request:
        with self._state.lock:
            for request in self._requests(agent, session_id):
                if request.id == request_id:
                    return request
            raise UnknownRequest(f"the session {session_id} of {agent} has not asked {request_id!r}")

    def _requests(self, agent: str, session_id: str, *, active: bool = False) -> list[Request]:
        row = self._rows.get((agent, session_id))
        if row is None or row.deleted:
            return []
        turns = {t.id for t in self._turns(agent, session_id, row.floor) if not (active and t.status.final)}
        return [request for request in self._state.requests.values() if request.root.execution_id in turns]

    def totals(self, *, agent: str | None = None) -> dict[tuple[str, str], int]:
        with self._state.lock:
            return {
                (found.agent, found.id): len(self.messages(found.agent, found.id)) for found in self.listed(agent=agent)
            }

    def messages(self, agent: str, session_id: str) -> list[dict[str, Any]]:
        with self._state.lock:
            row = self._live(agent, session_id)
            return deepcopy([*row.state, *self._said(self._turns(agent, session_id, row.floor))])

    def events(self, agent: str, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        with self._state.lock:
            row = self._live(agent, session_id)
            turns = self._turns(agent, session_id, row.floor)
            found = [event for turn in turns for event in self._state.events[turn.id].values() if event.seq > after]
            return deepcopy(sorted(found, key=lambda event: event.seq)[:limit])

    def _said(self, turns: Sequence[Execution]) -> list[dict[str, Any]]:
        return [message for turn in turns if self._counts(turn) for message in self.messages_of(turn.id)]

    def _counts(self, turn: Execution) -> bool:
        made = (CallOutcome.DONE, CallOutcome.FAILED, CallOutcome.UNKNOWN)
        return (
            not turn.status.final
            or turn.status is Status.SUCCESS
            or any(call.outcome in made for (owner, _), call in self._state.calls.items() if owner == turn.id)
        )

    def messages_of(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        events = self._state.events[execution_id].values()
        return own_messages((event.key, event.data) for event in events if event.type in MESSAGE_EVENTS)

    def delete(self, agent: str, session_id: str, *, by: str) -> list[ExecutionId]:
        with self._state.transaction():
            row = self._live(agent, session_id)
            active = [t for t in self._turns(agent, session_id, row.floor) if not t.status.final]
            self._delete((agent, session_id))
            for execution in active:
                self._state.cancel(execution.id, by)
            return [execution.id for execution in active]

    def _delete(self, key: _Key) -> None:
        self._state.version += 1
        floor = max(self._state.executions, default=0)
        self._rows[key] = replace(self._rows[key], deleted=True, state=(), floor=floor)

    def expire(self, ttl: float) -> int:
        with self._state.transaction():
            limit = self._state.now() - ttl
            old = [
                (session.agent, session.id)
                for session in self.listed()
                if session.status in (SessionStatus.IDLE, SessionStatus.ERROR) and session.changed_at <= limit
            ]
            for key in old:
                self._delete(key)
            return len(old)

    # For the store, inside the transaction that creates an execution

    def enter(self, new: NewExecution) -> None:
        if new.session_id is None or new.parent_id is not None:
            return
        key = (new.agent, new.session_id)
        row = self._rows.get(key)
        if row is None or row.deleted:
            if new.session_must_exist:
                raise UnknownSession(f"{new.agent} has no session {new.session_id}")
            self._begin(key)
        active = [t for t in self._turns(*key, self._rows[key].floor) if not t.status.final]
        if new.exclusive and active:
            raise ConversationBusy(f"the session {new.session_id} is busy with execution {active[0].id}")

    def floor(self, agent: str, session_id: str | None) -> int:
        row = None if session_id is None else self._rows.get((agent, session_id))
        return 0 if row is None else row.floor

    def first_messages(self, new: NewExecution) -> list[dict[str, Any]]:
        if new.parent_id is not None:
            return list(new.seed)
        row = None if new.session_id is None else self._rows.get((new.agent, new.session_id))
        turns = self._turns(new.agent, new.session_id, 0 if row is None else row.floor)
        past = self._said([turn for turn in turns if turn.status.final])
        begun = () if row is None else row.state
        talk = [*conversation_of(begun), *past]
        window = talk[window_start(talk, new.history) :]
        return deepcopy([*lead_of(new.seed, begun), *map(shortened, window), *new.seed[-1:]])

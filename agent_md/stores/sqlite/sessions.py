"""Sessions and conversations in SQLite.

A conversation has no messages of its own: they are the stored events of its executions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from agent_md.errors import ConversationBusy, SessionExists, TooManySessions, UnknownRequest, UnknownSession
from agent_md.executions.execution import Event, Execution, NewExecution
from agent_md.executions.history import MESSAGE_EVENTS, own_messages
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Request
from agent_md.executions.sessions import Session, SessionStatus
from agent_md.executions.states import Status
from agent_md.ports.clock import Clock
from agent_md.stores.sqlite import family
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.initial_messages import LEFT_TRACES, Conversation
from agent_md.stores.sqlite.rows import (
    ACTIVE,
    EVENT,
    EXECUTION,
    OPEN,
    REQUEST,
    dump,
    to_event,
    to_execution,
    to_request,
)

__all__ = ["SqliteSessions"]

_OF_ITS_ID = "x.agent = s.agent AND x.session_id = s.session_id AND x.parent_id IS NULL"
_OF_SESSION = f"{_OF_ITS_ID} AND x.id > s.floor"
_MESSAGES = ", ".join(f"'{kind}'" for kind in MESSAGE_EVENTS)

_SESSION = f"""
SELECT s.agent, s.session_id, s.created_at,
       (SELECT max(x.id) FROM executions x WHERE {_OF_SESSION} AND {ACTIVE}),
       (SELECT x.id FROM executions x WHERE {_OF_ITS_ID} AND +x.id > s.floor
        ORDER BY x.end_seq DESC, x.id DESC LIMIT 1),
       (SELECT x.created_at FROM executions x WHERE {_OF_SESSION} ORDER BY x.id DESC LIMIT 1),
       EXISTS (SELECT 1 FROM executions x JOIN executions a ON a.root_id = x.id
               JOIN request_states r ON r.execution_id = a.id WHERE {_OF_SESSION} AND {ACTIVE} AND {OPEN})
FROM sessions s WHERE s.deleted_at IS NULL"""
"""The plus keeps SQLite to the index by end, in whose order the first row is the one."""

_REQUEST = f"""{REQUEST}
JOIN executions o ON o.id = x.root_id
JOIN sessions s ON o.agent = s.agent AND o.session_id = s.session_id AND o.id > s.floor
WHERE s.deleted_at IS NULL AND s.agent = ? AND s.session_id = ?"""

_RESTS = f"""s.deleted_at IS NULL AND s.created_at <= ?1 AND NOT EXISTS (
    SELECT 1 FROM executions x WHERE {_OF_SESSION} AND ({ACTIVE} OR x.created_at > ?1 OR x.finished_at > ?1))"""

_BATCH = 100
"""So many sessions expire in one transaction, at most."""


class SqliteSessions:
    """`agent_md.ports.Sessions` on SQLite."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def create(
        self, agent: str, session_id: str, *, state: Sequence[dict[str, Any]] = (), limit: int | None = None
    ) -> Session:
        with self._db.write():
            if self._conversation(agent, session_id).lives:
                raise SessionExists(f"{agent} has a session {session_id} already")
            self._refuse_over(limit)
            self._begin(agent, session_id, self._clock(), dump(list(state)))
            return self.get(agent, session_id)

    def _conversation(self, agent: str, session_id: str) -> Conversation:
        row = self._db.one(
            "SELECT deleted_at IS NULL, floor, state FROM sessions WHERE agent = ? AND session_id = ?",
            *(agent, session_id),
        )
        return Conversation() if row is None else Conversation(bool(row[0]), row[1], json.loads(row[2]))

    def _live(self, agent: str, session_id: str) -> Conversation:
        found = self._conversation(agent, session_id)
        if not found.lives:
            raise _unknown(agent, session_id)
        return found

    def _refuse_over(self, limit: int | None) -> None:
        if limit is None:
            return
        count = self.count()
        if count >= limit:
            raise TooManySessions(
                f"there are {count} sessions, and server.max_sessions is {limit}; delete one, or try again later"
            )

    def _begin(self, agent: str, session_id: str, now: float, state: str) -> None:
        self._db.run(
            "INSERT INTO sessions (agent, session_id, created_at, state) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (agent, session_id) DO UPDATE SET created_at = excluded.created_at, deleted_at = NULL,"
            " state = excluded.state",
            *(agent, session_id, now, state),
        )

    def get(self, agent: str, session_id: str) -> Session:
        row = self._db.one(f"{_SESSION} AND s.agent = ? AND s.session_id = ?", agent, session_id)
        if row is None:
            raise _unknown(agent, session_id)
        return self._session(row)

    def listed(self, *, agent: str | None = None, session_id: str | None = None) -> list[Session]:
        wanted = {"agent": agent, "session_id": session_id}
        given = {name: value for name, value in wanted.items() if value is not None}
        conditions = "".join(f" AND s.{name} = ?" for name in given)
        rows = self._db.all(
            f"{_SESSION}{conditions} ORDER BY s.created_at DESC, s.agent, s.session_id", *given.values()
        )
        return [self._session(row) for row in rows]

    def totals(self, *, agent: str | None = None) -> dict[tuple[str, str], int]:
        condition, values = ("", ()) if agent is None else (" AND s.agent = ?", (agent,))
        rows = self._db.all(
            "SELECT s.agent, s.session_id, json_array_length(s.state)"
            " + (SELECT count(*) FROM executions x JOIN events e ON e.execution_id = x.id"
            f" WHERE e.type IN ({_MESSAGES}) AND {_OF_SESSION} AND ({ACTIVE} OR {LEFT_TRACES}))"
            f" FROM sessions s WHERE s.deleted_at IS NULL{condition}",
            *values,
        )
        return {(row[0], row[1]): row[2] for row in rows}

    def count(self) -> int:
        return int(self._db.one("SELECT count(*) FROM sessions WHERE deleted_at IS NULL")[0])

    def turns(self, agent: str, session_id: str) -> list[ExecutionId]:
        return self._turns(agent, session_id, "TRUE")

    def under_way(self, agent: str, session_id: str) -> list[ExecutionId]:
        return self._turns(agent, session_id, ACTIVE)

    def _turns(self, agent: str, session_id: str, condition: str) -> list[ExecutionId]:
        rows = self._db.all(
            f"SELECT x.id FROM sessions s JOIN executions x ON {_OF_SESSION}"
            f" WHERE s.deleted_at IS NULL AND s.agent = ? AND s.session_id = ? AND {condition} ORDER BY x.id",
            *(agent, session_id),
        )
        return [ExecutionId(row[0]) for row in rows]

    def open_requests(self, agent: str, session_id: str) -> list[Request]:
        rows = self._db.all(f"{_REQUEST} AND {ACTIVE} AND {OPEN} ORDER BY r.seq", agent, session_id)
        return [to_request(row) for row in rows]

    def request(self, agent: str, session_id: str, request_id: RequestId) -> Request:
        row = self._db.one(f"{_REQUEST} AND r.id = ?", agent, session_id, request_id)
        if row is None:
            raise UnknownRequest(f"the session {session_id} of {agent} has not asked {request_id!r}")
        return to_request(row)

    def _session(self, row: Any) -> Session:
        agent, session_id, created_at, active, ended, last_begun, interrupted = row
        turn = None if active is None and ended is None else self._execution(active or ended)
        if interrupted:
            status = SessionStatus.INTERRUPTED
        elif active is not None:
            status = SessionStatus.RUNNING
        else:
            failed = turn is not None and turn.status is not Status.SUCCESS
            status = SessionStatus.ERROR if failed else SessionStatus.IDLE
        finished = turn.finished_at if turn is not None else None
        changed_at = max(created_at, last_begun or created_at, finished or created_at)
        return Session(agent, session_id, status, created_at, changed_at, turn)

    def _execution(self, execution_id: int) -> Execution:
        return to_execution(self._db.one(f"{EXECUTION} WHERE x.id = ?", execution_id))

    def messages(self, agent: str, session_id: str) -> list[dict[str, Any]]:
        conversation = self._live(agent, session_id)
        rows = self._db.all(
            "SELECT x.id, e.key, e.data FROM executions x"
            f" JOIN events e ON e.execution_id = x.id AND e.type IN ({_MESSAGES})"
            " WHERE x.agent = ? AND x.session_id = ? AND x.parent_id IS NULL AND x.id > ?"
            f" AND ({ACTIVE} OR {LEFT_TRACES}) ORDER BY x.end_seq IS NULL, x.end_seq, x.id",
            *(agent, session_id, conversation.floor),
        )
        messages = list(conversation.begun)
        for _, events in groupby(rows, key=itemgetter(0)):
            messages += own_messages((key, json.loads(data)) for _, key, data in events)
        return messages

    def events(self, agent: str, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        conversation = self._live(agent, session_id)
        rows = self._db.all(  # the plus keeps SQLite to the order of events: near the end there are few
            f"{EVENT} WHERE seq > ? AND +execution_id IN (SELECT x.id FROM executions x"
            " WHERE x.agent = ? AND x.session_id = ? AND x.parent_id IS NULL AND x.id > ?) ORDER BY seq LIMIT ?",
            *(after, agent, session_id, conversation.floor, -1 if limit is None else limit),
        )
        return [to_event(row) for row in rows]

    def delete(self, agent: str, session_id: str, *, by: str) -> list[ExecutionId]:
        with self._db.write():
            self._live(agent, session_id)
            self._delete(agent, session_id)
            rows = self._db.all(
                f"SELECT id FROM executions x WHERE agent = ? AND session_id = ? AND parent_id IS NULL AND {ACTIVE}",
                *(agent, session_id),
            )
            turns = [ExecutionId(row[0]) for row in rows]
            for turn in turns:
                family.cancel(self._db, turn, by)
            return turns

    def _delete(self, agent: str, session_id: str) -> None:
        self._db.run(
            "UPDATE sessions SET deleted_at = ?, state = '[]', floor = (SELECT coalesce(max(id), 0) FROM executions)"
            " WHERE agent = ? AND session_id = ?",
            *(self._clock(), agent, session_id),
        )

    def expire(self, ttl: float) -> int:
        limit = self._clock() - ttl
        rows = self._db.all(f"SELECT s.agent, s.session_id FROM sessions s WHERE {_RESTS}", limit)
        return sum(self._expire(rows[start : start + _BATCH], limit) for start in range(0, len(rows), _BATCH))

    def _expire(self, rows: Sequence[Any], limit: float) -> int:
        """Deletes those that still rest."""
        still = f"SELECT 1 FROM sessions s WHERE s.agent = ?2 AND s.session_id = ?3 AND {_RESTS}"
        with self._db.write():
            old = [(agent, session_id) for agent, session_id in rows if self._db.one(still, limit, agent, session_id)]
            for agent, session_id in old:
                self._delete(agent, session_id)
        return len(old)

    # For the store, inside the transaction that creates an execution

    def conversation(self, new: NewExecution) -> Conversation:
        """The conversation that a new execution continues."""
        if new.session_id is None or new.parent_id is not None:
            return Conversation()
        return self._conversation(new.agent, new.session_id)

    def enter(self, new: NewExecution, conversation: Conversation) -> None:
        """Makes or revives the session of a new execution. Raises UnknownSession, ConversationBusy."""
        if new.session_id is None or new.parent_id is not None:
            return
        if not conversation.lives:
            if new.session_must_exist:
                raise _unknown(new.agent, new.session_id)
            self._begin(new.agent, new.session_id, self._clock(), "[]")
        if new.exclusive:
            self._refuse_if_busy(new.agent, new.session_id)

    def _refuse_if_busy(self, agent: str, session_id: str) -> None:
        if ids := self.under_way(agent, session_id):
            raise ConversationBusy(
                f"the session {session_id} of {agent} is busy with execution {', '.join(map(str, ids))}; "
                "wait for its end, answer what it asks, or cancel it"
            )


def _unknown(agent: str, session_id: str) -> UnknownSession:
    return UnknownSession(f"session not found: {agent} has no session {session_id}, or it was deleted")

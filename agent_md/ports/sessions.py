"""Sessions in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from agent_md.executions.execution import Event
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Request
from agent_md.executions.sessions import Session

__all__ = ["Sessions"]


class Sessions(Protocol):
    """Sessions, and the conversations that they are. Their turns are executions; a session exists from its creation or
    its first turn on, until it is deleted. A session of the same id that comes after that has nothing of the old one."""

    def create(
        self, agent: str, session_id: str, *, state: Sequence[dict[str, Any]] = (), limit: int | None = None
    ) -> Session:
        """Makes a session that begins with the messages `state` (stored form). Raises SessionExists; TooManySessions
        when there are `limit` of them, of all agents."""

    def get(self, agent: str, session_id: str) -> Session:
        """Raises UnknownSession."""

    def listed(self, *, agent: str | None = None, session_id: str | None = None) -> list[Session]:
        """All sessions, of one agent or with one id; newest first."""

    def totals(self, *, agent: str | None = None) -> dict[tuple[str, str], int]:
        """How many messages each session has, by agent and id. Takes the longer the longer the conversations are."""

    def count(self) -> int:
        """How many sessions there are, of all agents."""

    def turns(self, agent: str, session_id: str) -> list[ExecutionId]:
        """All its turns, oldest first; none if there is no such session."""

    def under_way(self, agent: str, session_id: str) -> list[ExecutionId]:
        """Its turns that have not ended, oldest first; none if there is no such session."""

    def open_requests(self, agent: str, session_id: str) -> list[Request]:
        """Open requests of its turns under way, oldest first; none if there is no such session."""

    def request(self, agent: str, session_id: str, request_id: RequestId) -> Request:
        """A request that one of its turns asked, open or decided. Raises UnknownRequest, also for one of another
        session."""

    def messages(self, agent: str, session_id: str) -> list[dict[str, Any]]:
        """The whole conversation in stored form: what it began with, its ended turns in the order of their ends, and
        what there is of turns under way. A turn that failed before any call started is not in it. Raises UnknownSession."""

    def events(self, agent: str, session_id: str, *, after: int = 0, limit: int | None = None) -> list[Event]:
        """Events of all its turns with `seq` above `after`, in order. Raises UnknownSession."""

    def delete(self, agent: str, session_id: str, *, by: str) -> list[ExecutionId]:
        """Deletes a session, and gives its turns under way, which are to be cancelled from now on (`request_cancel`).
        Executions and their logs stay. Raises UnknownSession."""

    def expire(self, ttl: float) -> int:
        """Deletes sessions that rest (idle or error) and have not changed for `ttl` seconds; gives how many."""

"""Queries for executions, their specs, their first messages and their costs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from agent_md.errors import UnknownExecution
from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.spending import Refusal, Scope
from agent_md.executions.states import Status
from agent_md.stores.sqlite import creating, ledger
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.execution_filter import conditions, has_status
from agent_md.stores.sqlite.initial_messages import SqliteInitialMessages, messages_of
from agent_md.stores.sqlite.refusals import refusals
from agent_md.stores.sqlite.rows import (
    EXECUTION,
    to_execution,
)

__all__ = ["ExecutionQueries"]


class ExecutionQueries:
    """Queries for executions, mixed into SqliteStore."""

    _db: Database
    _openings: SqliteInitialMessages

    def execution(self, execution_id: ExecutionId) -> Execution:
        row = self._db.one(f"{EXECUTION} WHERE x.id = ?", execution_id) if abs(execution_id) < 2**63 else None
        if row is None:
            raise UnknownExecution(
                creating.removal_of(self._db, execution_id)
                or f"there is no execution {execution_id}; `agentmd logs` lists them"
            )
        return to_execution(row)

    def executions(
        self,
        *,
        ids: Collection[ExecutionId] | None = None,
        statuses: Collection[Status] = (),
        agent: str | Collection[str] | None = None,
        session_id: str | None = None,
        unknown: bool | None = None,
        since: float | None = None,
        containing: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Execution]:
        agents = (agent,) if isinstance(agent, str) else agent
        where, values = conditions(
            *(self._db, ids, statuses, agents, session_id), unknown=unknown, since=since, containing=containing
        )
        rows = self._db.all(
            f"{EXECUTION} WHERE {where} ORDER BY x.id DESC LIMIT ? OFFSET ?",
            *(*values, -1 if limit is None else limit, offset),
        )
        return [to_execution(row) for row in rows]

    def agent_names(self) -> list[str]:
        rows = self._db.all(  # one step of the index for each name
            "WITH RECURSIVE names (name) AS (SELECT min(agent) FROM executions UNION ALL"
            " SELECT (SELECT min(agent) FROM executions WHERE agent > name) FROM names WHERE name IS NOT NULL)"
            " SELECT name FROM names WHERE name IS NOT NULL"
        )
        return [row[0] for row in rows]

    def count(self, statuses: Collection[Status]) -> int:
        where, values = has_status(statuses)
        (number,) = self._db.one(f"SELECT count(*) FROM executions x WHERE {where}", *values)
        return int(number)

    def spent(self, since: float, agent: str | None = None) -> float | None:
        scope = Scope.WORKSPACE if agent is None else Scope.AGENT
        return ledger.spent(self._db, scope, agent or "", since)

    def costs(self, by: CostBy, *, agents: Collection[str] | None = None, since: float | None = None) -> list[Cost]:
        return ledger.costs(self._db, by, agents, since)

    def refusals(
        self,
        *,
        agents: Collection[str] | None = None,
        session_id: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Refusal]:
        return refusals(self._db, agents, session_id, limit, offset)

    def seed(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        self.execution(execution_id)
        return self._openings.read(execution_id)

    def in_thread(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        return self._openings.in_thread(execution_id)

    def said(self, execution_id: ExecutionId) -> list[dict[str, Any]]:
        own = messages_of(self._db, [execution_id]).get(execution_id, [])
        return [message for message in own if message["type"] != "human"]

    def spec(self, execution_id: ExecutionId) -> str:
        self.execution(execution_id)
        (body,) = self._db.one(
            "SELECT s.body FROM specs s JOIN executions x ON x.spec_digest = s.digest WHERE x.id = ?", execution_id
        )
        return str(body)

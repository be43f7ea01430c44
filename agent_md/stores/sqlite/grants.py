"""Grants in SQLite."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from agent_md.errors import GrantLapsed, UnknownGrant
from agent_md.executions.grants import Grant, GrantEnd, GrantId, GrantScope, NewGrant
from agent_md.executions.ids import ExecutionId
from agent_md.ports.clock import Clock
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import dump

__all__ = [
    "KEPT_BY_GRANTS",
    "SqliteGrants",
    "expire",
    "first_usable",
    "give",
    "has_expired",
    "refuse_if_revoked",
    "revoke",
]

_SESSION_LIVES = """
EXISTS (SELECT 1 FROM sessions s WHERE s.agent = o.agent AND s.session_id = o.session_id
        AND s.deleted_at IS NULL AND o.id > s.floor)"""

_OVER = f"""
CASE g.scope WHEN 'execution' THEN o.finished_at IS NOT NULL WHEN 'session' THEN NOT {_SESSION_LIVES} ELSE FALSE END"""

_ENDED = f"""
CASE WHEN g.ended IS NOT NULL THEN g.ended WHEN g.until <= ?1 THEN 'expired' WHEN {_OVER} THEN 'over' END"""
"""At the time ?1."""

_GRANT = f"""
SELECT g.id, o.agent, g.execution_id, o.session_id, g.rule, g.scope, o.spec_digest, g.tool_digest, g.tool_module,
       g.given_by, g.given_at, g.until, {_ENDED}, g.ended_by, coalesce(g.ended_at, CASE WHEN g.until <= ?1 THEN g.until END)
FROM grants g JOIN executions o ON o.id = g.execution_id"""
"""`o` is the execution in which it was given."""

_USABLE = f"""{_GRANT} JOIN executions x ON x.id = ?2
WHERE g.ended IS NULL AND g.given_at <= ?1 AND (g.until IS NULL OR g.until > ?1)
AND o.agent = x.agent AND o.spec_digest = x.spec_digest
AND CASE g.scope
    WHEN 'execution' THEN o.id = x.id
    WHEN 'session' THEN o.parent_id IS NULL AND x.parent_id IS NULL AND o.session_id = x.session_id AND {_SESSION_LIVES}
         AND x.id > (SELECT s.floor FROM sessions s WHERE s.agent = x.agent AND s.session_id = x.session_id)
    ELSE g.scope = 'agent' END"""
"""For the execution ?2."""

KEPT_BY_GRANTS = """
WITH RECURSIVE kept (id) AS (
    SELECT g.execution_id FROM grants g WHERE g.scope = 'agent' AND g.ended IS NULL
    UNION SELECT p.parent_id FROM executions p JOIN kept k ON p.id = k.id WHERE p.parent_id IS NOT NULL)
SELECT id FROM kept"""
"""The executions in which grants were given that can hold beyond their execution and session, and those above them."""


class SqliteGrants:
    """`agent_md.ports.Grants` on SQLite."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def usable(self, execution_id: ExecutionId) -> list[Grant]:
        rows = self._db.all(f"{_USABLE} ORDER BY g.id", self._clock(), execution_id)
        return [_to_grant(row) for row in rows]

    def get(self, grant_id: GrantId) -> Grant:
        row = self._db.one(f"{_GRANT} WHERE g.id = ?2", self._clock(), grant_id) if abs(grant_id) < 2**63 else None
        if row is None:
            raise UnknownGrant(f"there is no grant {grant_id}; `agentmd grants --all` lists them")
        return _to_grant(row)

    def listed(
        self,
        *,
        agents: Collection[str] | None = None,
        ended: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Grant]:
        rows = self._db.all(
            f"{_GRANT} WHERE (?2 OR {_ENDED} IS NULL)"
            " AND (?3 IS NULL OR o.agent IN (SELECT value FROM json_each(?3))) ORDER BY g.id DESC LIMIT ?4 OFFSET ?5",
            *(self._clock(), ended, None if agents is None else dump(list(agents)), -1 if limit is None else limit),
            offset,
        )
        return [_to_grant(row) for row in rows]

    def revoke(self, grant_id: GrantId, *, by: str) -> Grant:
        with self._db.write():
            now = self._clock()
            expire(self._db, now)
            grant = self.get(grant_id)
            revoke(self._db, grant.id, by, now)
            return self.get(grant_id)


def has_expired(db: Database, now: float) -> bool:
    """Whether `expire` would end a grant."""
    return db.one("SELECT 1 FROM grants WHERE ended IS NULL AND until <= ? LIMIT 1", now) is not None


# What must run inside `Database.write()`


def expire(db: Database, now: float) -> None:
    """Ends the grants that are past their end, for good: the clock may be set back."""
    db.run("UPDATE grants SET ended = ?, ended_at = until WHERE ended IS NULL AND until <= ?", GrantEnd.EXPIRED, now)


def give(db: Database, execution_id: ExecutionId, new: NewGrant, by: str, now: float) -> GrantId:
    """Records a grant of an execution, or extends the one with the same rule, scope and tool that holds for it."""
    until = None if new.lasts is None else now + new.lasts
    same = db.one(
        f"{_USABLE} AND g.rule = ?3 AND g.scope = ?4 AND g.tool_digest = ?5 ORDER BY g.id LIMIT 1",
        *(now, execution_id, new.rule, new.scope, new.tool_digest),
    )
    if same is None:
        (grant_id,) = db.one(
            "INSERT INTO grants (execution_id, rule, scope, tool_module, tool_digest, given_by, given_at, until)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
            *(execution_id, new.rule, new.scope, new.tool_module, new.tool_digest, by, now, until),
        )
        return GrantId(grant_id)
    grant = _to_grant(same)
    if grant.until is not None and (until is None or until > grant.until):
        db.run("UPDATE grants SET until = ?, given_by = ?, given_at = ? WHERE id = ?", until, by, now, grant.id)
    return grant.id


def first_usable(db: Database, execution_id: ExecutionId, wanted: Sequence[GrantId], now: float) -> Grant | None:
    """The first of the wanted grants that holds now for the execution."""
    if not wanted:
        return None
    expire(db, now)
    row = db.one(
        f"{_USABLE} AND g.id IN (SELECT value FROM json_each(?3)) ORDER BY g.id LIMIT 1",
        *(now, execution_id, dump(list(wanted))),
    )
    return None if row is None else _to_grant(row)


def revoke(db: Database, grant_id: GrantId, by: str, now: float) -> None:
    """Ends a grant, unless it has ended."""
    db.run(
        "UPDATE grants SET ended = ?, ended_by = ?, ended_at = ? WHERE id = ? AND ended IS NULL",
        *(GrantEnd.REVOKED, by, now, grant_id),
    )


def refuse_if_revoked(db: Database, grant_id: GrantId) -> None:
    """Raises GrantLapsed."""
    row = db.one("SELECT ended_by FROM grants WHERE id = ? AND ended = ?", grant_id, GrantEnd.REVOKED)
    if row is not None:
        raise GrantLapsed(f"grant {grant_id} was revoked by {row[0]}")


def _to_grant(row: Any) -> Grant:
    return Grant(
        id=GrantId(row[0]),
        agent=row[1],
        execution_id=ExecutionId(row[2]),
        session_id=row[3],
        rule=row[4],
        scope=GrantScope(row[5]),
        spec_digest=row[6],
        tool_digest=row[7],
        tool_module=row[8],
        given_by=row[9],
        given_at=row[10],
        until=row[11],
        ended=None if row[12] is None else GrantEnd(row[12]),
        ended_by=row[13],
        ended_at=row[14],
    )

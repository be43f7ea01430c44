"""Removes executions, and keeps one row of each with its answers and keys. Their costs stay in the ledger.

An execution that stays may refer to others for what it begins with (see initial_messages.py). What a young one refers to stays with
it; an old one that stays for that reason is given copies of what it refers to, so that not the whole conversation stays.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from agent_md.executions.ids import ExecutionId
from agent_md.executions.retention import Removable
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.grants import KEPT_BY_GRANTS
from agent_md.stores.sqlite.initial_messages import LEFT_TRACES, SqliteInitialMessages, message_count, referred_to
from agent_md.stores.sqlite.rows import ACTIVE, dump

__all__ = ["Removals"]

_LISTED = "(SELECT value FROM json_each(?))"
_PAGE = 500
_CHUNK = 20
"""So many executions go in one transaction, at most."""

_OLD = f"""
x.parent_id IS NULL AND x.finished_at <= ? AND NOT ({ACTIVE})
AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.agent = x.agent AND s.session_id = x.session_id
                AND s.deleted_at IS NULL AND x.id > s.floor)
AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.execution_id = x.id)
AND NOT EXISTS (SELECT 1 FROM webhook_targets w WHERE w.execution_id = x.id)
AND x.id NOT IN ({KEPT_BY_GRANTS})
AND NOT (EXISTS (SELECT 1 FROM specs p WHERE p.digest = x.spec_digest
                 AND json_array_length(p.body, '$.notify') > 0)
         AND EXISTS (SELECT 1 FROM events e WHERE e.execution_id = x.id
                     AND e.seq > (SELECT c.seq FROM webhook_cursor c)))"""
"""Of an execution `x`: it ended by then, is in no session that lives, no webhook is still to tell of it, and no grant keeps it."""

_FAMILY = """
WITH RECURSIVE family (id) AS (SELECT ? UNION ALL SELECT x.id FROM executions x JOIN family f ON x.parent_id = f.id)
SELECT x.id, x.finished_at FROM family f JOIN executions x ON x.id = f.id ORDER BY x.id DESC"""

_TOMBSTONE = """
INSERT INTO tombstones
SELECT x.id, x.agent, (SELECT json_extract(s.body, '$.model') FROM specs s WHERE s.digest = x.spec_digest),
       x.trigger, x.session_id, x.parent_id, x.status, x.created_at, x.finished_at, ?,
       (SELECT json_group_array(json_array(r.id, r.outcome, r.value, r.answered_by, r.answered_at, r.retracted_by,
               r.retracted_at))
        FROM request_states r WHERE r.execution_id = x.id AND r.state <> 'open'),
       (SELECT json_array(f.trigger, f.key) FROM firings f WHERE f.execution_id = x.id),
       x.idempotency_key, x.idempotency_digest
FROM executions x WHERE x.id = ?"""

_ROWS = (
    "DELETE FROM settlements WHERE execution_id = ?",
    "DELETE FROM steps WHERE execution_id = ?",
    "DELETE FROM calls WHERE execution_id = ?",
    "DELETE FROM retractions WHERE request_id IN (SELECT id FROM requests WHERE execution_id = ?)",
    "DELETE FROM answers WHERE request_id IN (SELECT id FROM requests WHERE execution_id = ?)",
    "DELETE FROM requests WHERE execution_id = ?",
    "DELETE FROM grants WHERE execution_id = ?",
    "DELETE FROM execution_mcp_lists WHERE execution_id = ?",
    "DELETE FROM events WHERE execution_id = ?",
    "UPDATE firings SET reason = 'its execution ' || execution_id || ' was removed', execution_id = NULL"
    " WHERE execution_id = ?",
    "DELETE FROM executions WHERE id = ?",
)
"""In an order in which nothing refers to what is gone."""


class Removals:
    """The part of `agent_md.ports.Retention` that removes executions."""

    def __init__(self, db: Database, openings: SqliteInitialMessages) -> None:
        self._db = db
        self._openings = openings

    def removable(self, ended_before: float, latest: Collection[ExecutionId]) -> Removable:
        (newest,) = self._db.one("SELECT coalesce(max(id), 0) FROM executions")
        rows = list(self._old(ended_before))
        conversations = {(agent, session_id) for _, agent, session_id in rows}
        old = {row[0] for row in rows} - set(latest)
        needed: set[int] = set()
        for agent, session_id in conversations:
            if session_id is None:
                needed |= self._next_window(agent)
            for execution_id, seed in self._openings_after(agent, session_id, 0):
                if execution_id not in old:
                    needed |= referred_to(seed)
        return Removable(
            tuple(ExecutionId(i) for i in sorted(old - needed)),
            tuple(ExecutionId(i) for i in sorted(old & needed)),
            ExecutionId(newest),
            ended_before,
        )

    def _old(self, ended_before: float) -> Iterator[tuple[int, str, str | None]]:
        after = 0
        while rows := self._db.all(
            f"SELECT x.id, x.agent, x.session_id FROM executions x WHERE {_OLD} AND x.id > ? ORDER BY x.id LIMIT ?",
            *(ended_before, after, _PAGE),
        ):
            yield from rows
            after = rows[-1][0]

    def _openings_after(self, agent: str, session_id: str | None, after: int) -> Iterator[tuple[int, Any]]:
        while rows := self._db.all(
            "SELECT id, seed FROM executions WHERE agent = ? AND session_id IS ? AND parent_id IS NULL AND id > ?"
            " ORDER BY id LIMIT ?",
            *(agent, session_id, after, _PAGE),
        ):
            yield from ((execution_id, json.loads(seed)) for execution_id, seed in rows)
            after = rows[-1][0]

    def _next_window(self, agent: str) -> set[int]:
        """The messages that the next execution without a session would start with, with the history of the newest one."""
        (history,) = self._db.one(
            "SELECT coalesce(json_extract(s.body, '$.history'), 0) FROM executions x"
            " JOIN specs s ON s.digest = x.spec_digest"
            " WHERE x.agent = ? AND x.session_id IS NULL AND x.parent_id IS NULL ORDER BY x.id DESC LIMIT 1",
            agent,
        )
        rows = self._db.all(
            "SELECT x.id FROM executions x WHERE x.agent = ? AND x.session_id IS NULL AND x.parent_id IS NULL"
            f" AND x.end_seq IS NOT NULL AND {LEFT_TRACES} ORDER BY x.end_seq DESC LIMIT ?",
            *(agent, history),
        )
        found: set[int] = set()
        count = 0
        for (execution_id,) in rows:
            if count >= history:
                break
            found.add(execution_id)
            count += message_count(self._db, execution_id)
        return found

    def settle_kept(self, removable: Removable) -> None:
        """Gives those that stay because others refer to them copies of what they refer to."""
        going = set(removable.ids)
        for execution_id in removable.referred:
            with self._db.write():
                if referred_to(self._openings.stored(execution_id)) & going:
                    self._openings.write_out(execution_id)

    def remove(self, removable: Removable, now: float) -> tuple[list[ExecutionId], Removable]:
        """Removes the first of them, and gives which with what is left. Those that are needed by now stay."""
        chunk, rest = removable.ids[:_CHUNK], removable.ids[_CHUNK:]
        removed: list[ExecutionId] = []
        with self._db.write():
            still = {
                row[0]: (row[1], row[2])
                for row in self._db.all(
                    f"SELECT x.id, x.agent, x.session_id FROM executions x WHERE {_OLD} AND x.id IN {_LISTED}",
                    *(removable.ended_before, dump(chunk)),
                )
            }
            needed = {
                referred
                for agent, session_id in set(still.values())
                for _, seed in self._openings_after(agent, session_id, removable.newest)
                for referred in referred_to(seed)
            }
            for execution_id in chunk:
                if execution_id in still and execution_id not in needed:
                    removed += self._remove_family(execution_id, removable.ended_before, now)
        return removed, removable.only(rest)

    def _remove_family(self, execution_id: ExecutionId, ended_before: float, now: float) -> list[ExecutionId]:
        family = self._db.all(_FAMILY, execution_id)
        if any(finished_at is None or finished_at > ended_before for _, finished_at in family):
            return []
        for member, _ in family:
            (digest,) = self._db.one("SELECT spec_digest FROM executions WHERE id = ?", member)
            self._db.run(_TOMBSTONE, now, member)
            for statement in _ROWS:
                self._db.run(statement, member)
            self._db.run(
                "DELETE FROM specs WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM executions WHERE spec_digest = ?1)",
                digest,
            )
        return [ExecutionId(member) for member, _ in family]

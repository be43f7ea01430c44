"""Triggers and their firings in SQLite."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from agent_md.agents.names import name_key
from agent_md.errors import FiringDecided
from agent_md.executions.firings import (
    FileState,
    Firing,
    FiringId,
    FiringState,
    NewFiring,
    Pause,
    ToolRun,
    TriggerRecord,
    Written,
)
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import TriggerKind
from agent_md.ports.clock import Clock
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import dump

__all__ = ["SqliteFirings"]

_ALL = ""
"""Stands for all agents in the table of pauses; no agent is named so."""
_FIRING = "SELECT id, agent, trigger, key, due_at, message, state, reason, execution_id, decided_at, hop FROM firings"
_LATELY = (
    "(SELECT id FROM executions WHERE status IN ('queued', 'running', 'waiting')"
    " UNION ALL SELECT id FROM executions WHERE finished_at >= ?)"
)
_DELIVERED = (
    "SELECT f.id FROM delivery_keys k JOIN firings f ON f.id = k.firing_id"
    " WHERE k.agent = ? AND k.key IN (SELECT value FROM json_each(?)) AND f.state != 'skipped' ORDER BY f.id"
)
_DECIDE = (
    "UPDATE firings SET state = ?, reason = ?, execution_id = ?, decided_at = ?,"
    " message = CASE trigger WHEN 'webhook' THEN NULL ELSE message END WHERE id = ? AND state = 'due'"
)
"""The message of a delivery may be long, and its execution has it."""
_ABOVE = """
WITH RECURSIVE above (id) AS (
    SELECT ? UNION SELECT parent_id FROM executions JOIN above USING (id) WHERE parent_id IS NOT NULL
)
SELECT agent, (SELECT max(hop) FROM firings WHERE execution_id = executions.id AND trigger = ?)
FROM executions JOIN above USING (id)
"""
"""An execution and those that it was called by."""


class SqliteFirings:
    """`agent_md.ports.Firings` on SQLite."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def follow(self, agent: str, trigger: TriggerKind, digest: str) -> TriggerRecord:
        where = (name_key(agent), trigger)
        row = self._db.one("SELECT digest, anchor, looked_at FROM triggers WHERE agent = ? AND trigger = ?", *where)
        if row is not None and row[0] == digest:
            return TriggerRecord(row[1], row[2])
        now = self._clock()
        with self._db.write():
            self._db.run("INSERT OR REPLACE INTO triggers VALUES (?, ?, ?, ?, ?)", *where, digest, now, now)
        return TriggerRecord(now, now)

    def followed(self, agent: str, trigger: TriggerKind, digest: str) -> TriggerRecord | None:
        row = self._db.one(
            "SELECT anchor, looked_at FROM triggers WHERE agent = ? AND trigger = ? AND digest = ?",
            *(name_key(agent), trigger, digest),
        )
        return None if row is None else TriggerRecord(row[0], row[1])

    def advance(
        self,
        agent: str,
        trigger: TriggerKind,
        *,
        after: float,
        upto: float,
        new: Sequence[NewFiring],
        files: Mapping[str, FileState | None] = MappingProxyType({}),
    ) -> bool:
        with self._db.write():
            moved = self._db.run(
                "UPDATE triggers SET looked_at = ? WHERE agent = ? AND trigger = ? AND looked_at = ?",
                *(upto, name_key(agent), trigger, after),
            )
            if moved != 1:
                return False
            for firing in new:
                self._add(firing)
            self._set_files(agent, files)
        return True

    def begin_watch(self, agent: str, digest: str, files: Mapping[str, FileState]) -> None:
        now, key = self._clock(), name_key(agent)
        with self._db.write():
            self._db.run(
                "INSERT OR REPLACE INTO triggers VALUES (?, ?, ?, ?, ?)", key, TriggerKind.WATCH, digest, now, now
            )
            self._db.run("DELETE FROM watched_files WHERE agent = ?", key)
            self._set_files(agent, files)

    def _set_files(self, agent: str, files: Mapping[str, FileState | None]) -> None:
        for path, state in files.items():
            if state is None:
                self._db.run("DELETE FROM watched_files WHERE agent = ? AND path = ?", name_key(agent), path)
            else:
                row = (name_key(agent), path, state.stamp, state.digest)
                self._db.run("INSERT OR REPLACE INTO watched_files VALUES (?, ?, ?, ?)", *row)

    def watched_files(self, agent: str) -> dict[str, FileState]:
        rows = self._db.all("SELECT path, stamp, digest FROM watched_files WHERE agent = ?", name_key(agent))
        return {path: FileState(stamp, digest) for path, stamp, digest in rows}

    def written(self, since: float) -> list[Written]:
        rows = self._db.all(
            f"SELECT execution_id, effect_after FROM calls WHERE effect_after IS NOT NULL AND execution_id IN {_LATELY}",
            since,
        )
        above: dict[int, tuple[frozenset[str], int | None]] = {}
        found = []
        for execution, effect in rows:
            if execution not in above:
                above[execution] = self._above(execution)
            agents, hop = above[execution]
            found += [Written(path, state, agents, hop) for path, state in json.loads(effect)]
        return found

    def tool_runs(self, since: float) -> list[ToolRun]:
        rows = self._db.all(
            "SELECT calls.execution_id, tool, proposed.at, ended.at FROM calls"
            " JOIN events proposed ON proposed.execution_id = calls.execution_id LEFT JOIN events ended ON"
            " ended.execution_id = calls.execution_id AND ended.key = 'result:' || turn || '.' || idx"
            " WHERE proposed.key = 'call:' || turn || '.' || idx AND effect_after IS NULL AND state != 'proposed'"
            f" AND calls.execution_id IN {_LATELY} ORDER BY calls.execution_id, turn, idx",
            since,
        )
        hops = {execution: self._above(execution)[1] for execution in {row[0] for row in rows}}
        return [
            ToolRun(tool, hop, begun, ended)
            for execution, tool, begun, ended in rows
            if (hop := hops[execution]) is not None
        ]

    def _above(self, execution: int) -> tuple[frozenset[str], int | None]:
        """Who has part in what an execution does, and how many hops of watches led to it."""
        rows = self._db.all(_ABOVE, execution, TriggerKind.WATCH)
        hops = [hop for _, hop in rows if hop is not None]
        return frozenset(name_key(agent) for agent, _ in rows), max(hops, default=None)

    def add(self, new: NewFiring) -> Firing:
        with self._db.write():
            return self._added(new)

    def deliver(self, new: NewFiring, keys: Collection[str], since: float) -> Firing:
        agent = name_key(new.agent)
        with self._db.write():
            self._db.run("DELETE FROM delivery_keys WHERE at <= ?", since)
            row = self._db.one(_DELIVERED, agent, dump(list(keys)))
            if row is not None:
                return self.firing(row[0])
            firing = self._added(new)
            for key in keys:
                row = (agent, key, firing.id, self._clock())
                self._db.run("INSERT OR REPLACE INTO delivery_keys VALUES (?, ?, ?, ?)", *row)
        return firing

    def firing(self, firing_id: FiringId) -> Firing:
        found = _to_firing(self._db.one(f"{_FIRING} WHERE id = ?", firing_id))
        if found.state is not FiringState.STARTED or found.execution_id is not None:
            return found
        (removed,) = self._db.one(
            "SELECT execution_id FROM tombstones WHERE firing = json_array(?, ?)", found.trigger, found.key
        )
        return replace(found, execution_id=ExecutionId(removed))

    def _added(self, new: NewFiring) -> Firing:
        self._add(new)
        row = self._db.one(
            f"{_FIRING} WHERE agent_key = ? AND trigger = ? AND key = ?", name_key(new.agent), new.trigger, new.key
        )
        return _to_firing(row)

    def _add(self, new: NewFiring) -> None:
        skipped = new.reason is not None
        self._db.run(
            "INSERT OR IGNORE INTO firings"
            " (agent_key, agent, trigger, key, due_at, message, hop, state, reason, decided_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(name_key(new.agent), new.agent, new.trigger, new.key, new.due_at, new.message, new.hop),
            *(FiringState.SKIPPED if skipped else FiringState.DUE, new.reason, self._clock() if skipped else None),
        )

    def skip(self, firing_id: FiringId, reason: str) -> bool:
        with self._db.write():
            return self._db.run(_DECIDE, FiringState.SKIPPED, reason, None, self._clock(), firing_id) == 1

    def due(self) -> list[Firing]:
        return [_to_firing(row) for row in self._db.all(f"{_FIRING} WHERE state = 'due' ORDER BY id")]

    def listed(
        self,
        *,
        agent: str | None = None,
        states: Collection[FiringState] = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Firing]:
        rows = self._db.all(
            f"{_FIRING} WHERE (? IS NULL OR agent_key = ?)"
            " AND (? = 0 OR state IN (SELECT value FROM json_each(?))) ORDER BY id DESC LIMIT ? OFFSET ?",
            *(agent, None if agent is None else name_key(agent), len(states), dump(list(states))),
            *(-1 if limit is None else limit, offset),
        )
        return [_to_firing(row) for row in rows]

    def pause(self, agent: str | None, by: str) -> None:
        with self._db.write():
            key = _ALL if agent is None else name_key(agent)
            self._db.run("INSERT OR IGNORE INTO trigger_pauses VALUES (?, ?, ?)", key, by, self._clock())

    def resume(self, agent: str | None) -> None:
        with self._db.write():
            if agent is None:
                self._db.run("DELETE FROM trigger_pauses")
            else:
                self._db.run("DELETE FROM trigger_pauses WHERE agent = ?", name_key(agent))

    def pauses(self) -> list[Pause]:
        rows = self._db.all("SELECT agent, by, at FROM trigger_pauses ORDER BY agent")
        return [Pause(None if agent == _ALL else agent, by, at) for agent, by, at in rows]

    # For the store, inside the transaction that creates an execution

    def start(self, firing_id: FiringId, execution_id: ExecutionId) -> None:
        """Notes the execution that a firing started. Raises FiringDecided when it is not due."""
        if self._db.run(_DECIDE, FiringState.STARTED, None, execution_id, self._clock(), firing_id) != 1:
            raise FiringDecided(f"firing {firing_id} was started or skipped by another process; nothing was created")


def _to_firing(row: Any) -> Firing:
    return Firing(
        id=FiringId(row[0]),
        agent=row[1],
        trigger=TriggerKind(row[2]),
        key=row[3],
        due_at=row[4],
        message=row[5],
        state=FiringState(row[6]),
        reason=row[7],
        execution_id=None if row[8] is None else ExecutionId(row[8]),
        decided_at=row[9],
        hop=row[10],
    )

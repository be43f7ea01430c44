"""Retention in memory: the fake of `agent_md.ports.Retention`, held to the same contract suite as the real one."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.agents.names import name_key
from agent_md.executions.execution import Execution
from agent_md.executions.firings import FiringId, FiringState
from agent_md.executions.ids import ExecutionId
from agent_md.executions.retention import Removable
from agent_md.executions.states import Status
from tests.support.memory_sessions import MemorySessions
from tests.support.memory_state import MemoryState

__all__ = ["MemoryRetention"]

_CHUNK = 3


class MemoryRetention:
    """The `Retention` port on the tables of a `MemoryState`."""

    def __init__(self, state: MemoryState, sessions: MemorySessions) -> None:
        self._state = state
        self._sessions = sessions

    def latest(self) -> frozenset[ExecutionId]:
        with self._state.lock:
            newest = {
                x.agent: x.id for x in self._state.executions.values() if x.session_id is None and x.parent_id is None
            }
            return frozenset(newest.values())

    def renew_threads(self, execution_ids: Collection[ExecutionId]) -> frozenset[ExecutionId]:
        with self._state.transaction():
            found = [x for x in map(self._state.executions.get, execution_ids) if x is not None]
            idle = [x for x in found if not x.status.final and x.status is not Status.RUNNING]
            for execution in idle:
                self._state.change(execution.id, thread=execution.thread + 1)
            return frozenset(x.id for x in idle)

    def removable(self, ended_before: float) -> Removable:
        with self._state.lock:
            latest = self.latest()
            ids = [x.id for x in self._state.executions.values() if x.id not in latest and self._old(x, ended_before)]
            return Removable(tuple(ids), (), max(self._state.executions, default=ExecutionId(0)), ended_before)

    def _old(self, execution: Execution, ended_before: float) -> bool:
        if execution.parent_id is not None or not all(
            x.finished_at is not None and x.finished_at <= ended_before for x in self._family(execution.id)
        ):
            return False
        told = any(row.new.execution_id == execution.id for row in self._state.deliveries.values())
        kept_by = {g.execution_id for g in self._state.grants.values() if g.scope == "agent" and g.ended is None}
        if any(member.id in kept_by for member in self._family(execution.id)):
            return False
        return not (told or execution.id in self._state.hooks or self._sessions.holds(execution))

    def _family(self, execution_id: ExecutionId) -> list[Execution]:
        children = [x for x in self._state.executions.values() if x.parent_id == execution_id]
        return [self._state.executions[execution_id], *(x for child in children for x in self._family(child.id))]

    def remove_some(self, removable: Removable) -> tuple[list[ExecutionId], Removable]:
        state = self._state
        removed: list[ExecutionId] = []
        with state.transaction():
            for execution_id in removable.ids[:_CHUNK]:
                if self._old(state.executions[execution_id], removable.ended_before):
                    for member in reversed(self._family(execution_id)):
                        state.bury(member.id)
                        removed.append(member.id)
        return removed, removable.only(removable.ids[_CHUNK:])

    def remove_skipped_firings(self, keep: int) -> int:
        with self._state.transaction():
            skipped: dict[str, list[FiringId]] = {}
            for firing in self._state.firings.values():
                if firing.state is FiringState.SKIPPED:
                    skipped.setdefault(name_key(firing.agent), []).append(firing.id)
            old = next((ids[:-keep][:_CHUNK] for ids in skipped.values() if len(ids) > keep), [])
            for firing_id in old:
                del self._state.firings[firing_id]
            return len(old)

    def give_back_some(self) -> bool:
        return False

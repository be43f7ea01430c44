"""Retention in memory: the fake of `agent_md.ports.Retention`, held to the same contract suite as the real one."""

from __future__ import annotations

from collections.abc import Collection

from agent_md.executions.model import ExecutionId, Status
from tests.support.memory_state import MemoryState

__all__ = ["MemoryRetention"]


class MemoryRetention:
    """The `Retention` port on the tables of a `MemoryState`."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

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

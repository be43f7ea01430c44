"""The limits that hold for an execution: its own, and those of all above it, which count what is below them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent_md.agents.spec import AgentSpec, RunSettings
from agent_md.errors import WorkTimeout
from agent_md.executions.execution import Spent
from agent_md.executions.ids import ExecutionId
from agent_md.graph.limits import check_spent
from agent_md.ports.store import Store

__all__ = ["FamilyLimits"]


@dataclass(frozen=True, slots=True)
class _Ledger:
    """One execution of the line: its limits, and what it and all below it have used."""

    whose: str
    settings: RunSettings
    spent: Spent


class FamilyLimits:
    """Of one drive of an execution."""

    def __init__(self, store: Store, execution_id: ExecutionId, spec: AgentSpec) -> None:
        self._store = store
        self._id = execution_id
        above = store.line(execution_id)[:-1]
        self._line = [
            (x.id, f" of {x.agent} (execution {x.id})", AgentSpec.from_json(store.spec(x.id)).settings) for x in above
        ]
        self._line.append((execution_id, "", spec.settings))
        self._version: int | None = None
        self._timeouts: list[tuple[str, float, int]] = []

    def _ledgers(self) -> Iterator[_Ledger]:
        """The own one first: it is the nearest."""
        for execution_id, whose, settings in reversed(self._line):
            yield _Ledger(whose, settings, self._store.spent_by(execution_id))

    def check(self) -> int:
        """How many more calls of tools may be asked for. Raises LimitReached, naming the limit and whose it is."""
        left = []
        for ledger in self._ledgers():
            check_spent(ledger.settings, ledger.spent, ledger.whose)
            left.append(ledger.settings.max_tool_calls - ledger.spent.calls)
        return min(left)

    def check_time(self, version: int, stored_ms: int, worked_ms: int) -> None:
        """Raises WorkTimeout, naming whose time is used up. `stored_ms`: the work of this execution before the drive, which
        has added `worked_ms`. `version`: of the store."""
        if version != self._version:
            self._version = version
            own = self._store.execution(self._id).work_ms
            self._timeouts = [(each.whose, each.settings.timeout, each.spent.work_ms - own) for each in self._ledgers()]
        for whose, timeout, others_ms in self._timeouts:
            if (others_ms + stored_ms + worked_ms) / 1000 >= timeout:
                raise WorkTimeout(f"settings.timeout{whose}: {timeout:g} s of work are used up")

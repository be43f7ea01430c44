"""Workers whose life is a set of ids."""

from __future__ import annotations

import time
from collections.abc import Callable

from agent_md.executions.ids import WorkerId

__all__ = ["FakeWorkers"]


class FakeWorkers:
    """The `Workers` port with a set in place of processes: `living` are alive, all others are dead. Living ones work as
    long as `monotonic` says, in seconds."""

    def __init__(self, *living: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.living: set[WorkerId] = {WorkerId(worker) for worker in living}
        self.forgotten: set[WorkerId] = set()
        self._ordered: set[WorkerId] = set()
        self._last: dict[WorkerId, int] = {}
        self._monotonic = monotonic

    def alive(self, worker: WorkerId) -> bool:
        return worker in self.living

    def worked(self, worker: WorkerId) -> int:
        if worker in self.living:
            self._last[worker] = int(self._monotonic() * 1000)
        return self._last.get(worker, 0)

    def ended_by_order(self, worker: WorkerId) -> bool:
        return worker in self._ordered

    def dead(self) -> list[WorkerId]:
        return [worker for worker in self._last if worker not in self.living | self.forgotten]

    def forget(self, worker: WorkerId) -> None:
        self.forgotten.add(worker)

    def start(self, worker: str) -> WorkerId:
        """Adds a living worker and gives its id."""
        self.living.add(WorkerId(worker))
        return WorkerId(worker)

    def kill(self, worker: str, *, by_order: bool = False) -> None:
        """Its last sign of life was when it was last asked how long it has worked."""
        self.living.discard(WorkerId(worker))
        if by_order:
            self._ordered.add(WorkerId(worker))

"""Workers whose life is a set of ids."""

from __future__ import annotations

from agent_md.executions.model import WorkerId

__all__ = ["FakeWorkers"]


class FakeWorkers:
    """The `Workers` port with a set in place of processes: `living` are alive, all others are dead."""

    def __init__(self, *living: str) -> None:
        self.living: set[WorkerId] = {WorkerId(worker) for worker in living}

    def alive(self, worker: WorkerId) -> bool:
        return worker in self.living

    def start(self, worker: str) -> WorkerId:
        """Adds a living worker and gives its id."""
        self.living.add(WorkerId(worker))
        return WorkerId(worker)

    def kill(self, worker: str) -> None:
        self.living.discard(WorkerId(worker))

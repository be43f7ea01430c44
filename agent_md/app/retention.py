"""Removing old data: executions, skipped firings and checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_md.app.app import App
    from agent_md.runner.retention_sweep import Threads

__all__ = ["Retention"]


class Retention:
    """Measures and removes old data of one workspace. `rest` pauses between two batches, as in ThreadFile."""

    def __init__(self, app: App) -> None:
        self._app = app

    def threads(self, rest: Callable[[float], bool | None] = time.sleep) -> Threads:
        """The checkpoints of this workspace's executions."""
        from agent_md.runner.retention_sweep import Threads
        from agent_md.stores.checkpoint_cleanup import ThreadFile

        file = ThreadFile(self._app.settings.checkpoint_database, tell=self._app.notify, rest=rest)
        return Threads(self._app.reading_store, file, time.time)

    def remove_executions(self, days: int, rest: Callable[[float], bool | None] = time.sleep) -> int:
        """Removes executions that ended at least `days` ago and are not needed; returns how many."""
        from agent_md.runner.retention_sweep import remove_executions

        return remove_executions(self._app.store, days, time.time, rest)

    def thin_firings(self, rest: Callable[[float], bool | None] = time.sleep) -> int:
        """Removes all skipped firings except the newest of each agent; returns how many."""
        from agent_md.runner.retention_sweep import thin_firings

        return thin_firings(self._app.store, rest)

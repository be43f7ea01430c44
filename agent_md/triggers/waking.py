"""Waits for changes in folders, with watchfiles in a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

__all__ = ["FolderEvents"]

_GROUP_MS = 200
_STEP_MS = 50
_CHECK_MS = 1000


class FolderEvents:
    """Reports when names in these folders are created, removed or touched, but not in folders below them."""

    def __init__(
        self, folders: frozenset[Path], woken: Callable[[], object], failed: Callable[[Exception], object]
    ) -> None:
        """Both are called in a thread: `woken` also once it has started; `failed` when there will be no more
        notifications."""
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(sorted(folders), woken, failed), name="agentmd-watch", daemon=True
        )
        self._thread.start()

    def _run(self, folders: list[Path], woken: Callable[[], object], failed: Callable[[Exception], object]) -> None:
        from watchfiles import watch

        logging.getLogger("watchfiles.main").setLevel(logging.WARNING)  # it logs every event
        begun = False
        try:
            for events in watch(
                *folders,
                watch_filter=None,
                debounce=_GROUP_MS,
                step=_STEP_MS,
                stop_event=self._stop,
                rust_timeout=_CHECK_MS,
                yield_on_timeout=True,
                raise_interrupt=False,
                recursive=False,
                ignore_permission_denied=False,  # it would ignore that no watches are left, too
            ):
                if events or not begun:
                    woken()
                begun = True
        except (OSError, RuntimeError) as error:  # no watches left, or a folder that has gone
            if not self._stop.is_set():
                failed(error)

    def close(self) -> None:
        """Nothing is told from now on; the thread ends by itself."""
        self._stop.set()

"""Logs the code that blocks the event loop of a server for too long."""

from __future__ import annotations

import asyncio
import logging
import selectors
import sys
import threading
import time
import traceback
from pathlib import Path
from types import FrameType, TracebackType

__all__ = ["HELD_S", "LoopWatchdog"]

log = logging.getLogger(__name__)

HELD_S = 0.2
"""What holds the loop for longer is logged."""
_EVERY_S = 0.1
_FRAMES = 6


class LoopWatchdog:
    """Watches the running loop from a thread, for as long as the block lasts. Only places in code are logged, no values."""

    def __init__(self, held_s: float = HELD_S) -> None:
        self._held_s = held_s
        self._over = threading.Event()

    def __enter__(self) -> LoopWatchdog:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        threading.Thread(target=self._watch, name="loop watchdog", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_EVERY_S):
            if _is_idle(sys._current_frames().get(self._watched)):
                continue  # to wake it would cost more than all it does
            asked, answered = time.monotonic(), threading.Event()
            try:
                self._loop.call_soon_threadsafe(answered.set)
            except RuntimeError:  # the loop has ended
                return
            if answered.wait(self._held_s):
                continue
            where = _places(sys._current_frames().get(self._watched))
            while not answered.wait(_EVERY_S):
                if self._over.is_set():
                    return
            if where:
                log.warning("the event loop was held for %.1f s, in %s", time.monotonic() - asked, where)


def _is_idle(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_filename == selectors.__file__


def _places(frame: FrameType | None) -> str:
    """Where the loop's thread is, the innermost place first; "" if it waits for something to do: then it was the machine
    that held it."""
    if frame is None or _is_idle(frame):
        return ""
    stack = [item for item in traceback.extract_stack(frame) if "asyncio" not in Path(item.filename).parts]
    return " < ".join(f"{Path(item.filename).name}:{item.lineno} {item.name}" for item in stack[: -_FRAMES - 1 : -1])

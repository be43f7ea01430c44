"""Asks a process to stop driving and return its executions, for instance because too many of its threads are blocked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["HandBack"]


class HandBack:
    """The request to stop driving; one for each process. Any thread that finds that the process should stop calls
    `ask`; the code that drives listens. A server returns its executions as queued, without counting an attempt, and
    restarts itself with the same process number. A command returns its execution, prints why and how to continue,
    and exits with 1."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._listening: list[Callable[[str], object]] = []

    @property
    def reason(self) -> str | None:
        """Why, once it was asked."""
        return self._reason

    def ask(self, reason: str) -> None:
        """Has the process give its work back; returns at once. `reason` is for people, in words that go on after a
        colon. Only the first one counts."""
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            listening = list(self._listening)
        for tell in listening:
            tell(reason)

    @contextmanager
    def listening(self, tell: Callable[[str], object]) -> Iterator[None]:
        """As long as this lasts `tell` is called when it is asked, in the thread that asks; at once if it was before.
        It must return at once and not raise."""
        with self._lock:
            self._listening.append(tell)
            reason = self._reason
        if reason is not None:
            tell(reason)
        try:
            yield
        finally:
            with self._lock:
                self._listening.remove(tell)

"""Caches what sandboxed processes reported, so that they are not started again for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Remembered"]

_MOST = 512


class Remembered:
    """What sandboxed processes said of sources and arguments, for all agents of a process. Safe to use from several
    threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: dict[str, dict[str, Any]] = {}

    def get(self, key: str, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What was said to this, else what `ask` gives now."""
        with self._lock:
            known = self._said.get(key)
        if known is None:
            known = ask()
            if not known.keys().isdisjoint(("unusable", "error")):
                return known  # another time it may be otherwise
            self.keep(key, known)
        return known

    def keep(self, key: str, said: dict[str, Any]) -> None:
        """Remembers what would be said to this."""
        with self._lock:
            if key not in self._said and len(self._said) >= _MOST:
                del self._said[next(iter(self._said))]
            self._said[key] = said

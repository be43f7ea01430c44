"""The current agents of a workspace: reads agent files again when they have changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from agent_md.agents.defaults import Defaults
from agent_md.agents.files import file_stamp
from agent_md.agents.registry import Registry, agent_files, scan

__all__ = ["AgentSource", "CurrentAgents", "RegistryChanged"]

RegistryChanged = Callable[[Registry, Registry], object]
"""Called with the registry before and after a change. It must not ask for the registry itself."""


class AgentSource(Protocol):
    """Where agent files are, and the defaults they are read with."""

    @property
    def agents_dir(self) -> Path: ...

    @property
    def workspace(self) -> Path: ...

    @property
    def defaults(self) -> Defaults: ...


class CurrentAgents:
    """The registry, read again when an agent file or the defaults have changed. Safe to use from several threads."""

    def __init__(self, source: Callable[[], AgentSource]) -> None:
        self.keeps_last_good = False
        """Whether an agent stays as it was when its file becomes invalid; for processes that run for long."""
        self._source = source
        self._lock = threading.RLock()
        self._listeners: list[RegistryChanged] = []
        self._registry: Registry | None = None
        self._signature: tuple[Any, ...] = ()

    def registry(self) -> Registry:
        """The agents as their files are now."""
        source = self._source()
        with self._lock:
            files = [(path, file_stamp(path)) for path in agent_files(source.agents_dir)]
            signature = (source.agents_dir, source.defaults, files)
            registry = self._registry
            if registry is None or signature != self._signature:
                registry = self._adopt(scan(source.agents_dir, source.workspace, source.defaults))
                self._signature = signature
            return registry

    def listen(self, changed: RegistryChanged) -> Registry:
        """Calls `changed` whenever the registry changes from now on, in whichever thread noticed it; gives the
        registry as it is now."""
        with self._lock:
            registry = self.registry()
            self._listeners.append(changed)
            return registry

    def _adopt(self, found: Registry) -> Registry:
        before = self._registry
        now = found.with_last_good(before) if self.keeps_last_good and before is not None else found
        self._registry = now
        if before is not None:
            for changed in self._listeners:
                changed(before, now)
        return now

"""Hot reload of tool modules: detects changes and errors in those that agents name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_md.agents.files import file_stamp
from agent_md.agents.registry import Registry
from agent_md.reloading.loop import Announcement, ChangeReport, folders_below
from agent_md.tools.last_good_modules import LastGoodModules
from agent_md.tools.tool_modules import ModuleUnusable, ToolModule

__all__ = ["ToolFiles"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _State:
    """A module on disk. `digest` None: it is not there, or cannot be read."""

    digest: str | None
    mistake: str | None


class ToolFiles:
    """Announces changes of tool modules. They are read again where they are used; nothing of them is run here."""

    def __init__(self, folder: Path, kept: LastGoodModules, registry: Callable[[], Registry]) -> None:
        self._folder = folder
        self._kept = kept
        self._registry = registry
        self._known: dict[str, _State] = {}
        self._signature: object = None
        self.look(at_once=True)

    @property
    def problems(self) -> dict[str, str]:
        """What is wrong with modules that agents name, by module."""
        return {name: state.mistake for name, state in self._known.items() if state.mistake is not None}

    def folders(self) -> Iterable[Path]:
        return folders_below(self._folder, skip=lambda name: name.startswith((".", "__pycache__")))

    def look(self, *, at_once: bool) -> ChangeReport:
        users = self._users()
        signature = (users, self._kept.version, self._stamps())
        if signature == self._signature:
            return ChangeReport()
        self._signature = signature
        known, self._known = self._known, {name: self._state(name) for name in users}
        changed = [name for name in users if name in known and known[name] != self._known[name]]
        return ChangeReport([self._event(name, known[name], self._known[name], users[name]) for name in changed])

    def _users(self) -> dict[str, list[str]]:
        """The modules that agents name, each with the agents."""
        users: dict[str, list[str]] = {}
        for entry in self._registry().agents:
            for name in entry.spec.tools:
                users.setdefault(name, []).append(entry.spec.name)
        return users

    def _stamps(self) -> dict[Path, object]:
        files = (path for folder in self.folders() for path in folder.glob("*.py"))
        return {path: file_stamp(path) for path in files}

    def _state(self, name: str) -> _State:
        module = ToolModule(self._folder, name)
        try:
            source = module.read()
        except ModuleUnusable as error:
            return _State(None, str(error))
        return _State(source.digest, self._kept.mistake(module, source))

    def _event(self, name: str, before: _State, now: _State, agents: list[str]) -> Announcement:
        data: dict[str, Any] = {"event": "updated", "module": name, "agents": agents}
        if now.digest is None and before.digest is not None:
            data["event"] = "removed"
        elif now.mistake is not None:
            data["event"] = "invalid"
        elif before.digest is None:
            data["event"] = "loaded"
        if now.mistake is not None:
            data["error"] = now.mistake
            log.warning("tool module %s: %s", name, now.mistake)
        else:
            log.info("tool module %s: %s", name, data["event"])
        return "tools_changed", data

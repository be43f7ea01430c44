"""Hot reload of agent files: detects changes and errors."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agent_md.agents.current import CurrentAgents
from agent_md.agents.names import name_key
from agent_md.agents.registry import AgentEntry, InvalidFile, Registry
from agent_md.reloading.loop import Announcement, ChangeReport, folders_below

__all__ = ["AgentFiles"]

log = logging.getLogger(__name__)


class AgentFiles:
    """Announces each change of the registry, whoever read the files first."""

    def __init__(self, agents: CurrentAgents, folder: Path) -> None:
        self._agents = agents
        self._folder = folder
        self._news: deque[Announcement] = deque()
        for item in agents.listen(self._changed).invalid:
            log.warning("invalid agent file: %s", item.error)

    def folders(self) -> Iterable[Path]:
        return folders_below(self._folder, skip=lambda name: name.startswith(".") or name == "_config")

    def look(self, *, at_once: bool) -> ChangeReport:
        """A valid file counts at once: what starts unattended waits by itself until a file is saved."""
        self._agents.registry()
        found = []
        while self._news:
            found.append(self._news.popleft())
        return ChangeReport(found)

    def _changed(self, before: Registry, now: Registry) -> None:
        for event, name, file in (*_gone(before, now), *_changes(before, now)):
            self._tell(event, name, file)
        for item in _newly_invalid(before, now):
            stays = "" if item.last_good is None else f" ({item.last_good} stays as it was when it was valid last)"
            log.warning("invalid agent file: %s%s", item.error, stays)
            self._tell("invalid", item.last_good or item.name or item.file, item.file, error=item.error)

    def _tell(self, event: str, name: str, file: str, **more: Any) -> None:
        self._news.append(("agents_changed", {"event": event, "agent_name": name, "file": file, **more}))


def _gone(before: Registry, now: Registry) -> Iterator[tuple[str, str, str]]:
    """Invalid files that are there no more, and agents that are not."""
    left = {item.file for item in now.invalid} | {entry.spec.source_path for entry in now.agents}
    names = {name_key(entry.spec.name) for entry in now.agents}
    for item in before.invalid:
        if item.file not in left and item.last_good is None:
            taken = item.name is None or name_key(item.name) in names
            yield "removed", item.file if taken or item.name is None else item.name, item.file
    known = _by_name(now)
    yield from (
        ("removed", name, entry.spec.source_path) for name, entry in _by_name(before).items() if name not in known
    )


def _changes(before: Registry, now: Registry) -> Iterator[tuple[str, str, str]]:
    old = _by_name(before)
    mended = {item.last_good for item in before.invalid} - {item.last_good for item in now.invalid}
    for name, entry in _by_name(now).items():
        if name not in old:
            yield "loaded", name, entry.spec.source_path
        elif name in mended or old[name].spec.behaviour_digest != entry.spec.behaviour_digest:
            yield "updated", name, entry.spec.source_path


def _newly_invalid(before: Registry, now: Registry) -> list[InvalidFile]:
    known = {(item.file, item.error) for item in before.invalid}
    return [item for item in now.invalid if (item.file, item.error) not in known]


def _by_name(registry: Registry) -> dict[str, AgentEntry]:
    return {entry.spec.name: entry for entry in registry.agents}

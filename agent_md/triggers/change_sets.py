"""Computes the changes between two snapshots of files, when a set is complete, and its message for the agent. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["LONGEST_UNREST_S", "Change", "Settling", "changes_between", "message_of"]

LONGEST_UNREST_S = 60.0
"""A file that is written to without a pause is handed over this long after its first change."""
_MOST_TOLD = 200


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is not as it was. `source` is where a moved one was."""

    kind: Literal["created", "modified", "moved", "deleted"]
    path: str
    source: str | None = None


def changes_between(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    """What happened to the files, by path, whose contents have these digests: the same one that is gone at one path and
    new at another was moved."""
    gone: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(before.keys() - now.keys(), reverse=True):
        gone[before[path]].append(path)
    found = []
    for path in sorted(now):
        if path not in before:
            sources = gone[now[path]]
            found.append(Change("moved", path, sources.pop()) if sources else Change("created", path))
        elif now[path] != before[path]:
            found.append(Change("modified", path))
    left = (path for paths in gone.values() for path in paths)
    return sorted([*found, *(Change("deleted", path) for path in left)], key=lambda change: change.path)


def message_of(changes: Sequence[Change]) -> str:
    """The message for the agent, a line for each change. Names are escaped, so that none can look like another line."""
    lines = ["Files that you watch were changed:"]
    for change in changes[:_MOST_TOLD]:
        source = "" if change.source is None else f"{_shown(change.source)} -> "
        lines.append(f"{change.kind} {source}{_shown(change.path)}")
    if len(changes) > _MOST_TOLD:
        lines.append(f"[and {len(changes) - _MOST_TOLD} more]")
    return "\n".join(lines)


def _shown(path: str) -> str:
    """The path as it is, or as a JSON string where it could be taken for something else."""
    plain = path.isprintable() and path == path.strip() and " -> " not in path and not path.startswith('"')
    return path if plain else json.dumps(path)


class Settling:
    """Waits until files that change have been left alone for a while."""

    def __init__(self, quiet: float) -> None:
        """`quiet` in seconds."""
        self._quiet = quiet
        self._seen: frozenset[tuple[str, str | None]] = frozenset()
        self._first = self._latest = 0.0

    def look(self, differing: frozenset[tuple[str, str | None]], now: float) -> float | None:
        """`differing` are the files that are not as they were told last, each with what changes when it is touched. Gives
        how long to wait for them, 0 if they are complete; None if there are none."""
        if not differing:
            self._seen = differing
            return None
        if not self._seen:
            self._first = now
        if differing != self._seen:
            self._seen, self._latest = differing, now
        return max(0.0, min(self._latest + self._quiet, self._first + LONGEST_UNREST_S) - now)

    def overdue(self, now: float) -> bool:
        """Whether they have waited as long as anything does."""
        return now >= self._first + LONGEST_UNREST_S

    def done(self) -> None:
        """What differs now was handed over."""
        self._seen = frozenset()

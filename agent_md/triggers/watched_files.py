"""Finds the files that match the globs of a watch, within the agent's paths."""

from __future__ import annotations

import fnmatch
import os
import time
from dataclasses import dataclass
from pathlib import Path

from agent_md.agents.spec import Trigger
from agent_md.errors import ToolError
from agent_md.ports.clock import Clock
from agent_md.tools.forbidden import real_path
from agent_md.tools.globbing import FileWalk, PathPattern
from agent_md.tools.path_sandbox import Resolved, Root, Sandbox
from agent_md.tools.pinned_path import ABSENT, PinnedPath, open_pinned

__all__ = ["FileContent", "FoundFile", "ScanResult", "WatchedFiles"]

_NEVER = (".git", "*~", ".*.sw?", "4913", ".#*", "#*#", ".agentmd-*.tmp")
"""Names of files that editors and programs keep for themselves while they save."""
_RACY_S = 0.1
"""Within this time a file system may give two changes one time."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that is there. `stamp` changes whenever it is touched."""

    resolved: Resolved
    stamp: str
    touched_at: float


@dataclass(frozen=True, slots=True)
class FileContent:
    """What is in a file. `states` are how tools note it; `stamp` is empty if it was touched while it was read, or so
    shortly before that the next touch might not show."""

    digest: str
    states: frozenset[str]
    stamp: str
    calm: bool
    """Whether nothing touched it while it was read."""


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What one look found: the files by their path for the agent's tools, and the folders that were looked into, each
    with the number by which the file system knows it."""

    files: dict[str, FoundFile]
    folders: frozenset[tuple[Path, int]]
    missing: bool
    """Whether a declared path of the agent is not there; its folder, which could tell of it, is not looked into."""
    outside: tuple[str, ...]
    """Globs that lead out of what the agent may reach."""
    stopped: bool
    """There are too many files to look at all."""


class WatchedFiles:
    """The files of one watch. A glob without `*`, `?` or `[` stands for a file, or for all that is in a folder."""

    def __init__(self, trigger: Trigger, sandbox: Sandbox, clock: Clock = time.time) -> None:
        self._trigger = trigger
        self._clock = clock
        self._sandbox = sandbox

    def look(self) -> ScanResult:
        """The files as they are now; links are never followed, and what no tool may touch is left out."""
        files: dict[str, FoundFile] = {}
        folders: set[Path] = set()
        stopped = False
        ignored = _Ignored(
            [pattern for text in self._trigger.ignore for pattern in self._patterns(text)], self._trigger
        )
        for text in self._trigger.paths:
            for parts in self._patterns(text):
                search = FileWalk(self._sandbox, PathPattern(parts), passed_by=ignored)
                files |= {file.subject: found for file in search if (found := _found(file)) is not None}
                folders.update(search.folders)
                stopped = stopped or search.stopped
        known = frozenset((folder, number) for folder in folders if (number := _inode(folder)) is not None)
        missing = any(not root.path.exists() for root in self._sandbox.roots())
        return ScanResult(files, known, missing, tuple(self.outside()), stopped)

    def outside(self) -> list[str]:
        """Globs that lead out of what the agent may reach."""
        return [text for text in self._trigger.paths if not self._patterns(text)]

    def read(self, file: Resolved) -> FileContent | None:
        """What is in a file; None if it is gone. Raises nothing for one that cannot be read: that is its content."""
        try:
            with open_pinned(self._sandbox, file) as place:
                return _content(place, self._clock())
        except ToolError as error:
            if isinstance(error.__cause__, PermissionError):
                return FileContent("unreadable", frozenset(), "", calm=True)
            return None

    def real(self, subject: str) -> str:
        """The absolute path of a file, there or gone."""
        for root in self._sandbox.roots():
            first, _, rest = subject.partition("/")
            if root.alias is None or root.alias == first:
                return str(root.path / (subject if root.alias is None else rest))
        return subject

    def _patterns(self, text: str) -> list[list[str]]:
        """A glob as patterns of the paths that the agent's tools take; none if it leads out of what they reach."""
        parts = [part for part in text.split("/") if part not in ("", ".")]
        base = Path(text).expanduser() if text.startswith(("/", "~")) else None
        if base is not None:
            parts = list(base.parts[1:])
        fixed = next((number for number, part in enumerate(parts) if _is_glob(part)), len(parts))
        literal, rest = parts[:fixed], parts[fixed:]
        if ".." in rest:
            return []
        if literal or base is not None:
            reached = self._reached(literal, absolute=base is not None)
            if reached is None:
                return []
            literal = reached
        found = [*literal, *rest]
        return [found] if rest else [found, [*found, "**"]] if found else [["**"]]

    def _reached(self, literal: list[str], *, absolute: bool) -> list[str] | None:
        """The path of a folder or file for the agent's tools, links followed."""
        roots = self._sandbox.roots()
        way = Path("/").joinpath(*literal) if absolute else self._start(literal, roots)
        real = real_path(way)
        root = next((root for root in roots if real.is_relative_to(root.path)), None)
        if root is None:
            return None
        subject = root.subject(real)
        return [] if subject == "." else subject.split("/")

    def _start(self, literal: list[str], roots: tuple[Root, ...]) -> Path:
        first = literal[0].removeprefix("{").removesuffix("}") if literal[0].startswith("{") else literal[0]
        for root in roots:
            if root.alias is not None and root.alias == first:
                return root.path.joinpath(*literal[1:])
        return self._sandbox.workspace.joinpath(*literal)


class _Ignored:
    """Which paths of the agent's tools are passed by: those that `ignore` names, with all below, and temporary files."""

    def __init__(self, patterns: list[list[str]], trigger: Trigger) -> None:
        self._patterns = [PathPattern(parts) for parts in patterns]
        self._names = [*_NEVER, *(text.rstrip("/") for text in trigger.ignore if "/" not in text.rstrip("/"))]

    def __call__(self, path: str) -> bool:
        *_, name = parts = path.split("/")
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in self._names):
            return True
        return any(self._fits(pattern, parts) for pattern in self._patterns)

    def _fits(self, pattern: PathPattern, parts: list[str]) -> bool:
        states = pattern.start
        for part in parts:
            states = pattern.step(states, part)
        return pattern.accepts(states)


def _is_glob(part: str) -> bool:
    return any(sign in part for sign in "*?[")


def _found(file: Resolved) -> FoundFile | None:
    try:
        found = file.path.lstat()
        return FoundFile(file, _stamp(found), found.st_ctime)
    except OSError:
        return None


def _inode(folder: Path) -> int | None:
    """What makes it this folder; None for one that cannot be looked into."""
    try:
        return folder.stat().st_ino if os.access(folder, os.R_OK | os.X_OK) else None
    except OSError:
        return None


def _stamp(found: os.stat_result) -> str:
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def _content(place: PinnedPath, now: float) -> FileContent | None:
    before = place.stat()
    state = place.state()
    if before is None or state == ABSENT:
        return None
    digest = state if state.startswith("sha256:") else place.content_digest()
    after = place.stat()
    calm = after is not None and _stamp(after) == _stamp(before)
    racy = abs(now - before.st_ctime) < _RACY_S
    return FileContent(digest, frozenset({digest, state}), _stamp(before) if calm and not racy else "", calm)

"""`file_glob`: finds files by name within limits, without following links."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from agent_md.agents.effects import Effects, Place
from agent_md.executions.requests import Preview
from agent_md.tools.arguments import action_digest, object_schema
from agent_md.tools.base import Plan, ToolOptions
from agent_md.tools.file_work import Commit
from agent_md.tools.files import FileTool
from agent_md.tools.forbidden import ForbiddenPlaces
from agent_md.tools.path_sandbox import Resolved, Root, Sandbox, shown_path
from agent_md.tools.threads import ToolThreads

__all__ = ["FileGlob", "FileWalk", "Hidden", "PathPattern", "nothing_hidden", "path_pattern", "rule_glob"]

Hidden = Callable[[str], bool]
"""Whether the file with this subject is left out of what is found."""

_MOST = 100
_WALK_LIMIT = 200_000
_WALK_S = 10.0

_States = frozenset[int]


def nothing_hidden(path: str) -> bool:
    """No file is left out."""
    return False


class FileGlob(FileTool):
    """Gives at most 100 paths, one a line. Links, what the sandbox forbids and what is `hidden` are left out."""

    name = "file_glob"
    description = (
        f"Finds files by a pattern such as reports/*.txt or **/*.py; ** stands for any folders. At most {_MOST} paths."
    )
    parameters = object_schema(
        {"pattern": {"type": "string", "minLength": 1, "description": "Pattern of paths as the other tools take them."}}
    )
    options = ToolOptions(read_only=True, idempotent=True, reads=("pattern",), writes=())

    def __init__(self, sandbox: Sandbox, hidden: Hidden = nothing_hidden, threads: ToolThreads | None = None) -> None:
        super().__init__(sandbox, threads)
        self._hidden = hidden

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        return (str(path_pattern(self._sandbox, args["pattern"])),)

    def effects(self, args: dict[str, Any]) -> Effects:
        pattern = rule_glob(str(path_pattern(self._sandbox, args["pattern"])))
        return Effects(reads=(Place(pattern, any_of=True, leaves_out=True),), writes=())

    def plan(self, args: dict[str, Any]) -> Plan:
        roots = [str(root.path) for root in self._sandbox.roots()]
        path_pattern(self._sandbox, args["pattern"])
        return Plan(digest=action_digest(self.name, args, *roots), preview=Preview(resolved=", ".join(roots)))

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        search = FileWalk(self._sandbox, path_pattern(self._sandbox, args["pattern"]))
        found: list[str] = []
        for path in (file.subject for file in search):
            if self._hidden(path):
                continue
            if len(found) == _MOST:
                return "\n".join([*found, f"[More than {_MOST} files match; narrow the pattern to see the others.]"])
            found.append(path)
        if search.stopped:
            found.append(
                f"[The search ended after {_WALK_LIMIT} names or {_WALK_S:g} s; narrow the pattern to be sure.]"
            )
        return "\n".join(found) or f"No files match {shown_path(args['pattern'])}"


def path_pattern(sandbox: Sandbox, pattern: str) -> PathPattern:
    """A pattern of a call. Raises ToolError for one that leads out of the sandbox."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.startswith(("/", "~")) or ".." in parts or "\0" in pattern or len(pattern) > 1000:
        raise sandbox.refusal(pattern)
    found = PathPattern(sandbox.without_braces(parts, pattern))
    if not any(root.alias is None or found.step(found.start, root.alias) for root in sandbox.roots()):
        raise sandbox.refusal(pattern)
    return found


def rule_glob(pattern: str) -> str:
    """A glob of rules that fits at least what the pattern finds."""
    plain, bracket, _ = pattern.replace("**/", "*").partition("[")
    return f"{plain}*" if bracket else plain


class PathPattern:
    """A pattern as a small automaton over the names of a path; a state is a number of parts that were matched."""

    def __init__(self, parts: list[str]) -> None:
        self._parts = [part for at, part in enumerate(parts) if part != "**" or parts[at - 1 : at] != ["**"]]
        self._names = [re.compile(fnmatch.translate(part)) for part in self._parts]
        self.start = self._skipping({0})

    def __str__(self) -> str:
        return "/".join(self._parts)

    def step(self, states: _States, name: str) -> _States:
        """The states after one more name; none = nothing below can match."""
        after: set[int] = set()
        for state in states:
            if state == len(self._parts):
                continue
            if self._parts[state] == "**":
                if not name.startswith("."):
                    after.add(state)
            elif self._fits(state, name):
                after.add(state + 1)
        return self._skipping(after)

    def accepts(self, states: _States) -> bool:
        return len(self._parts) in states

    def _fits(self, state: int, name: str) -> bool:
        if name.startswith(".") and not self._parts[state].startswith("."):
            return False
        return self._names[state].match(name) is not None

    def _skipping(self, states: set[int]) -> _States:
        """`**` may also stand for no folder at all."""
        todo = list(states)
        while todo:
            state = todo.pop()
            if state < len(self._parts) and self._parts[state] == "**" and state + 1 not in states:
                states.add(state + 1)
                todo.append(state + 1)
        return frozenset(states)


class FileWalk:
    """One walk through all roots; gives the files in the order of their names, files before folders.

    `stopped`: there were too many names to look at all, or it took too long. `folders`: those that were looked into.
    """

    def __init__(self, sandbox: Sandbox, pattern: PathPattern, *, passed_by: Hidden = nothing_hidden) -> None:
        """Nothing is given of files and folders whose path is `passed_by`, nor are they looked into."""
        self.stopped = False
        self.folders: list[Path] = []
        self._passed_by = passed_by
        self._sandbox = sandbox
        self._pattern = pattern
        self._left = _WALK_LIMIT
        self._deadline = 0.0

    def __iter__(self) -> Iterator[Resolved]:
        self._deadline = time.monotonic() + _WALK_S
        forbidden = self._sandbox.forbidden()
        roots = self._sandbox.roots()
        others = frozenset(root.path for root in roots)
        for root in sorted(roots, key=lambda root: root.alias or ""):
            states = self._pattern.start if root.alias is None else self._pattern.step(self._pattern.start, root.alias)
            yield from self._walk(root, states, forbidden, others - {root.path})

    def _walk(
        self, root: Root, start: _States, forbidden: ForbiddenPlaces, others: frozenset[Path]
    ) -> Iterator[Resolved]:
        if root.path.is_file():
            if self._pattern.accepts(start) and not forbidden.forbid(root.path, root.path):
                yield _resolved(root, root.path)
            return
        todo = [(root.path, start)]
        while todo and not self.stopped:
            folder, states = todo.pop()
            if time.monotonic() > self._deadline:
                self.stopped = True
                return
            self.folders.append(folder)
            inner: list[tuple[Path, _States]] = []
            for name, is_folder in self._names(folder):
                path = folder / name
                after = self._pattern.step(states, name)
                if not after or path in others or forbidden.forbid(path, root.path):
                    continue
                if self._passed_by(root.subject(path)):
                    continue
                if is_folder:
                    inner.append((path, after))
                elif self._pattern.accepts(after):
                    yield _resolved(root, path)
            todo.extend(reversed(inner))

    def _names(self, path: Path) -> list[tuple[str, bool]]:
        """Names of regular files and folders in a folder, by name, and whether each is a folder."""
        try:
            with self._sandbox.open_folder(path, str(self._pattern)) as folder:
                return self._listed(folder)
        except OSError:
            return []

    def _listed(self, folder: int | None) -> list[tuple[str, bool]]:
        if folder is None:
            return []
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            with os.scandir(readable) as entries:
                return sorted(self._kept(entries))
        finally:
            os.close(readable)

    def _kept(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, bool]]:
        for entry in entries:
            self._left -= 1
            if self._left < 0 or (self._left % 1000 == 0 and time.monotonic() > self._deadline):
                self.stopped = True
                return
            is_folder = entry.is_dir(follow_symlinks=False)
            if (is_folder or entry.is_file(follow_symlinks=False)) and _is_utf8(entry.name):
                yield entry.name, is_folder


def _resolved(root: Root, path: Path) -> Resolved:
    subject = root.subject(path)
    return Resolved(path, root, subject, subject)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True

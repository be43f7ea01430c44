"""Watches: changed files become a firing, in one transaction with the new snapshot."""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_md.agents.names import name_key
from agent_md.agents.spec import AgentSpec
from agent_md.executions.firings import FileState, NewFiring, ToolRun, TriggerRecord, Written
from agent_md.executions.states import TriggerKind
from agent_md.ports.clock import Clock
from agent_md.ports.firings import Firings
from agent_md.tools.builtin import BUILTIN_NAMES
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.pinned_path import ABSENT
from agent_md.tools.run_command import RunCommand
from agent_md.triggers.change_sets import Settling, changes_between, message_of
from agent_md.triggers.watched_files import FileContent, ScanResult, WatchedFiles

__all__ = ["MOST_HOPS", "AgentWatch", "WatchLook", "watch_digest"]

log = logging.getLogger(__name__)

MOST_HOPS = 5
"""How often what an agent writes may start an agent that writes what starts the next."""
_KIND = TriggerKind.WATCH
_UNREAD = ""
"""In place of the digest of a file that was there when its watch began, until it was read."""
_READ_AT_ONCE = 200
_AGAIN_S = 0.2
_COARSE_S = 0.05
"""What the time of a file may be off."""
_HELD_S = 1.0


def watch_digest(spec: AgentSpec) -> str:
    """The digest of the settings whose change restarts a watch: which files it covers."""
    trigger = spec.trigger
    said = json.dumps([trigger.type, trigger.paths, trigger.ignore, [[m.alias, m.path] for m in spec.paths]])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class WatchLook:
    """What a look came to. `pause`: seconds until the next one at the latest, None if nothing is under way; `made`:
    whether there is a new firing."""

    pause: float | None
    made: bool
    folders: frozenset[tuple[Path, int]]
    missing: bool
    problem: str | None
    """What keeps files from being seen, in a line."""


@dataclass(frozen=True, slots=True)
class _Set:
    """Files that differ from their last reported state. `contents`: their current content, None = removed."""

    before: Mapping[str, FileState]
    contents: Mapping[str, FileContent | None]
    touched: Mapping[str, float]
    """When each of those that are there was touched last."""

    def states(self) -> dict[str, FileState | None]:
        """How they are stored from now on."""
        return {path: _stored(content) for path, content in self.contents.items()}

    def changed(self) -> list[str]:
        """Those whose content is another one."""
        return [path for path, content in self.contents.items() if _digest(content) != self._digest_before(path)]

    def of(self, paths: list[str]) -> str:
        """The changes of some of the files."""
        before = {path: digest for path in paths if (digest := self._digest_before(path)) is not None}
        now = {path: content.digest for path in paths if (content := self.contents[path]) is not None}
        return message_of(changes_between(before, now))

    def _digest_before(self, path: str) -> str | None:
        state = self.before.get(path)
        return None if state is None else state.digest


class AgentWatch:
    """The watch of one agent. Nothing is lost if a look is cut anywhere: the next one compares with what is stored."""

    def __init__(
        self,
        spec: AgentSpec,
        sandbox: Sandbox,
        firings: Firings,
        *,
        clock: Clock = time.time,
        ticks: Clock = time.monotonic,
    ) -> None:
        """`ticks` is a clock that is never set back."""
        self._spec = spec
        self._files = WatchedFiles(spec.trigger, sandbox, clock)
        self._firings = firings
        self._clock = clock
        self._ticks = ticks
        self._settling = Settling(spec.trigger.debounce)

    def look(self) -> WatchLook:
        """Compares the files with their last reported state, and creates a firing of complete changes. Raises
        StoreError."""
        now = self._clock()
        looked = self._files.look()
        digest = watch_digest(self._spec)
        known = self._firings.followed(self._spec.name, _KIND, digest)
        if known is None:
            self._begin(digest, looked, {})
            return _came_to(looked, 0.0)
        pause, made = self._compare(looked, known, now)
        return _came_to(looked, pause, made=made)

    def begin(self) -> None:
        """Starts the watch, at the start of a server. Existing files are not reported if the watch is new, or if it
        skips changes from times without a server; later changes are. Raises StoreError."""
        digest = watch_digest(self._spec)
        known = self._firings.followed(self._spec.name, _KIND, digest)
        if known is None or self._spec.trigger.catch_up == "skip":
            self._begin(
                digest, self._files.look(), {} if known is None else self._firings.watched_files(self._spec.name)
            )

    def _begin(self, digest: str, looked: ScanResult, known: Mapping[str, FileState]) -> None:
        states = {path: FileState(found.stamp, _UNREAD) for path, found in looked.files.items()}
        same = {path: state for path, state in known.items() if path in states and states[path].stamp == state.stamp}
        self._firings.begin_watch(self._spec.name, digest, states | same)

    def _read_some(self, before: Mapping[str, FileState], looked: ScanResult, known: TriggerRecord) -> float | None:
        """Reads files whose content is not known yet; gives when to go on, None if all are known."""
        unread = [path for path, state in before.items() if state.digest == _UNREAD]
        if not unread:
            return None
        contents = {path: self._read(looked, path) for path in unread[:_READ_AT_ONCE]}
        states = {path: state for path, content in contents.items() if (state := _stored(content)) is not None}
        same = {path: state for path, state in states.items() if state.stamp == before[path].stamp}
        at = known.looked_at
        self._firings.advance(self._spec.name, _KIND, after=at, upto=at, new=[], files=same)
        return 0.0 if len(same) == len(contents) else _AGAIN_S

    def _compare(self, looked: ScanResult, known: TriggerRecord, now: float) -> tuple[float | None, bool]:
        before = self._firings.watched_files(self._spec.name)
        differing = _differing(before, looked)
        wait = self._settling.look(differing, self._ticks())
        if wait is None:
            return self._read_some(before, looked, known), False
        if wait > 0:
            return wait, False
        if self._held():  # what changes meanwhile is told with it
            return _HELD_S, False
        contents = {path: self._read(looked, path) for path, _ in differing}
        restless = any(content is not None and not content.calm for content in contents.values())
        if restless and not self._settling.overdue(self._ticks()):
            return max(_AGAIN_S, self._spec.trigger.debounce), False
        touched = {path: found.touched_at for path in contents if (found := looked.files.get(path)) is not None}
        changed = _Set(before, contents, touched)
        new, states = self._new(changed, known, now), changed.states()
        if not self._firings.advance(self._spec.name, _KIND, after=known.looked_at, upto=now, new=new, files=states):
            return 0.0, False  # another process looks too: see what it has left
        self._settling.done()
        again = any(state is not None and not state.stamp for state in states.values())
        return _AGAIN_S if again else None, bool(new)

    def _read(self, looked: ScanResult, path: str) -> FileContent | None:
        found = looked.files.get(path)
        return None if found is None else self._files.read(found.resolved)

    def _held(self) -> bool:
        """Whether changes of before are still to be started."""
        name = name_key(self._spec.name)
        return any(firing.trigger is _KIND and name_key(firing.agent) == name for firing in self._firings.due())

    def _new(self, changed: _Set, known: TriggerRecord, now: float) -> list[NewFiring]:
        """The firings of a change set: one, and one more for what came by too many hops."""
        paths = changed.changed()
        if not paths:
            return []
        authors: defaultdict[tuple[str, str], list[Written]] = defaultdict(list)
        for written in self._firings.written(known.looked_at):
            authors[written.path, written.state].append(written)
        runs = [
            run for run in self._firings.tool_runs(known.looked_at) if run.tool not in BUILTIN_NAMES - {RunCommand.name}
        ]
        near: dict[str, int] = {}
        far: dict[str, int] = {}
        for path in paths:
            content, real = changed.contents[path], self._files.real(path)
            states = {ABSENT} if content is None else content.states
            by = [written for state in states for written in authors[real, state]]
            if any(name_key(self._spec.name) in written.agents for written in by):
                continue
            hops = [written.hop + 1 for written in by if written.hop is not None]
            hops += [] if by else [run.hop + 1 for run in runs if _may_have_written(run, changed.touched.get(path))]
            hop = max(hops, default=0)
            (far if hop > MOST_HOPS else near)[path] = hop
        return [self._firing(changed, hops, now) for hops in (near, far) if hops]

    def _firing(self, changed: _Set, hops: dict[str, int], now: float) -> NewFiring:
        return NewFiring(
            agent=self._spec.name,
            trigger=_KIND,
            key=uuid.uuid4().hex,
            due_at=now,
            message=changed.of(list(hops)),
            hop=max(hops.values()),
        )


def _may_have_written(run: ToolRun, touched_at: float | None) -> bool:
    """Whether a tool that does not say what it writes ran when a file was touched last."""
    if touched_at is None:
        return False
    return run.begun_at - _COARSE_S <= touched_at and (run.ended_at is None or touched_at <= run.ended_at + _COARSE_S)


def _differing(before: Mapping[str, FileState], looked: ScanResult) -> frozenset[tuple[str, str | None]]:
    here = {
        (path, found.stamp)
        for path, found in looked.files.items()
        if path not in before or before[path].stamp != found.stamp
    }
    gone = set() if looked.stopped else {(path, None) for path in before.keys() - looked.files.keys()}
    return frozenset(here | gone)


def _stored(content: FileContent | None) -> FileState | None:
    return None if content is None else FileState(content.stamp, content.digest)


def _digest(content: FileContent | None) -> str | None:
    return None if content is None else content.digest


def _came_to(looked: ScanResult, pause: float | None, *, made: bool = False) -> WatchLook:
    problem = None
    if looked.outside:
        problem = (
            f"trigger.paths: {', '.join(looked.outside)} leads out of what the agent may reach; nothing is seen there"
        )
    elif looked.stopped:
        problem = "there are too many files to look at all of them; make trigger.paths narrower"
    return WatchLook(pause, made, looked.folders, looked.missing, problem)

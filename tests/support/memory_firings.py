"""Firings in memory: the fake of `agent_md.ports.Firings`, held to the same contract suite as the real one."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import MappingProxyType

from agent_md.agents.names import name_key
from agent_md.errors import FiringDecided
from agent_md.executions.calls import Call
from agent_md.executions.execution import Execution
from agent_md.executions.firings import (
    FileState,
    Firing,
    FiringId,
    FiringState,
    NewFiring,
    Pause,
    ToolRun,
    TriggerRecord,
    Written,
)
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import CallState, TriggerKind
from tests.support.memory_state import MemoryState

__all__ = ["MemoryFirings"]


class MemoryFirings:
    """The `Firings` port on the tables of a `MemoryState`."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def follow(self, agent: str, trigger: TriggerKind, digest: str) -> TriggerRecord:
        if known := self.followed(agent, trigger, digest):
            return known
        with self._state.transaction():
            self._state.version += 1
            begun = TriggerRecord(self._state.now(), self._state.now())
            self._state.triggers[name_key(agent), trigger] = (digest, begun)
            return begun

    def followed(self, agent: str, trigger: TriggerKind, digest: str) -> TriggerRecord | None:
        with self._state.lock:
            known = self._state.triggers.get((name_key(agent), trigger))
            return known[1] if known and known[0] == digest else None

    def advance(
        self,
        agent: str,
        trigger: TriggerKind,
        *,
        after: float,
        upto: float,
        new: Sequence[NewFiring],
        files: Mapping[str, FileState | None] = MappingProxyType({}),
    ) -> bool:
        with self._state.transaction():
            digest, known = self._state.triggers[name_key(agent), trigger]
            if known.looked_at != after:
                return False
            self._state.version += 1
            self._state.triggers[name_key(agent), trigger] = (digest, replace(known, looked_at=upto))
            for firing in new:
                self._add(firing)
            now = {**self._state.watched.get(name_key(agent), {}), **files}
            self._state.watched[name_key(agent)] = {path: state for path, state in now.items() if state is not None}
            return True

    def begin_watch(self, agent: str, digest: str, files: Mapping[str, FileState]) -> None:
        with self._state.transaction():
            self._state.version += 1
            begun = TriggerRecord(self._state.now(), self._state.now())
            self._state.triggers[name_key(agent), TriggerKind.WATCH] = (digest, begun)
            self._state.watched[name_key(agent)] = dict(files)

    def watched_files(self, agent: str) -> dict[str, FileState]:
        with self._state.lock:
            return dict(self._state.watched.get(name_key(agent), {}))

    def written(self, since: float) -> list[Written]:
        with self._state.lock:
            return [
                Written(
                    path,
                    state,
                    frozenset(name_key(above.agent) for above in self._line(execution)),
                    self._hop(execution),
                )
                for execution, call in self._calls_since(since)
                if call.effect is not None
                for path, state in json.loads(call.effect.after)
            ]

    def tool_runs(self, since: float) -> list[ToolRun]:
        with self._state.lock:
            found = []
            for execution, call in self._calls_since(since):
                hop = self._hop(execution)
                if call.effect is None and call.state is not CallState.PROPOSED and hop is not None:
                    events = self._state.events[execution.id]
                    ended = events.get(f"result:{call.position}")
                    begun = events[f"call:{call.position}"].at
                    found.append(ToolRun(call.tool, hop, begun, None if ended is None else ended.at))
            return found

    def _calls_since(self, since: float) -> Iterator[tuple[Execution, Call]]:
        for (execution_id, _), call in self._state.calls.items():
            execution = self._state.executions[execution_id]
            if execution.finished_at is None or execution.finished_at >= since:
                yield execution, call

    def _hop(self, execution: Execution) -> int | None:
        line = [above.id for above in self._line(execution)]
        watched = [firing for firing in self._state.firings.values() if firing.trigger is TriggerKind.WATCH]
        return max((firing.hop for firing in watched if firing.execution_id in line), default=None)

    def _line(self, execution: Execution) -> Iterator[Execution]:
        yield execution
        if execution.parent_id is not None:
            yield from self._line(self._state.executions[execution.parent_id])

    def add(self, new: NewFiring) -> Firing:
        with self._state.transaction():
            return self._add(new)

    def _add(self, new: NewFiring) -> Firing:
        for firing in self._state.firings.values():
            if (name_key(firing.agent), firing.trigger, firing.key) == (name_key(new.agent), new.trigger, new.key):
                return firing
        self._state.version += 1
        skipped = new.reason is not None
        state = FiringState.SKIPPED if skipped else FiringState.DUE
        self._state.last_firing += 1
        number = FiringId(self._state.last_firing)
        made = Firing(**asdict(new), id=number, state=state, decided_at=self._state.now() if skipped else None)
        self._state.firings[number] = made
        return made

    def deliver(self, new: NewFiring, keys: Collection[str], since: float) -> Firing:
        with self._state.transaction():
            agent, known = name_key(new.agent), self._state.delivery_keys
            for key in [key for key, (_, at) in known.items() if at <= since]:
                known.pop(key)
            for number in sorted(known[agent, key][0] for key in keys if (agent, key) in known):
                if self._state.firings[number].state is not FiringState.SKIPPED:
                    return self.firing(number)
            made = self._add(new)
            for key in keys:
                known[agent, key] = (made.id, self._state.now())
            return made

    def firing(self, firing_id: FiringId) -> Firing:
        with self._state.lock:
            found = self._state.firings[firing_id]
            return replace(found, execution_id=found.execution_id or self._state.executions_of.get(firing_id))

    def skip(self, firing_id: FiringId, reason: str) -> bool:
        return self._decide(firing_id, state=FiringState.SKIPPED, reason=reason)

    def start(self, firing_id: FiringId, execution_id: ExecutionId) -> None:
        if not self._decide(firing_id, state=FiringState.STARTED, execution_id=execution_id):
            raise FiringDecided(f"firing {firing_id} was decided before")

    def _decide(self, firing_id: FiringId, **fields: object) -> bool:
        with self._state.transaction():
            firing = self._state.firings.get(firing_id)
            if firing is None or firing.state is not FiringState.DUE:
                return False
            self._state.version += 1
            if firing.trigger is TriggerKind.WEBHOOK:
                fields["message"] = None
            self._state.firings[firing_id] = replace(firing, decided_at=self._state.now(), **fields)  # type: ignore[arg-type]
            return True

    def due(self) -> list[Firing]:
        return self.listed(states=[FiringState.DUE])[::-1]

    def listed(
        self,
        *,
        agent: str | None = None,
        states: Collection[FiringState] = (),
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Firing]:
        with self._state.lock:
            found = [
                firing
                for firing in reversed(self._state.firings.values())
                if (agent is None or name_key(agent) == name_key(firing.agent))
                and (not states or firing.state in states)
            ]
        return found[offset : None if limit is None else offset + limit]

    def pause(self, agent: str | None, by: str) -> None:
        with self._state.transaction():
            self._state.version += 1
            key = "" if agent is None else name_key(agent)
            self._state.pauses.setdefault(key, Pause(key or None, by, self._state.now()))

    def resume(self, agent: str | None) -> None:
        with self._state.transaction():
            self._state.version += 1
            if agent is None:
                self._state.pauses.clear()
            else:
                self._state.pauses.pop(name_key(agent), None)

    def pauses(self) -> list[Pause]:
        with self._state.lock:
            return [pause for _, pause in sorted(self._state.pauses.items())]

"""Schedules: each slot becomes exactly one firing, for any number of processes, restarts and clock changes."""

from __future__ import annotations

import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from agent_md.agents.names import name_key
from agent_md.agents.registry import Registry
from agent_md.agents.spec import AgentSpec, Trigger
from agent_md.executions.firings import NewFiring, TriggerRecord, slot_key
from agent_md.executions.states import TriggerKind
from agent_md.ports.clock import Clock
from agent_md.ports.firings import Firings
from agent_md.triggers.fire_times import fires, zone_of
from agent_md.triggers.pauses import paused_by

__all__ = ["MOST_CAUGHT_UP", "Scheduler", "UpcomingFire", "coming_fires", "has_begun", "next_fire", "schedule_digest"]

MOST_CAUGHT_UP = 10
_MOST_MISSED = 100
"""Missed slots that are kept one by one; older ones are one firing together."""
_LONGEST_LOOK_BACK_S = 31 * 24 * 3600.0
_LATE_S = 60.0
"""Between two looks of one process, at most: a longer time is one in which it did not run."""
_GAP_S = 2.0
_KIND = TriggerKind.SCHEDULE


def schedule_digest(trigger: Trigger) -> str:
    """The digest of the settings whose change restarts an interval."""
    said = json.dumps([trigger.type, trigger.every, trigger.cron, trigger.timezone])
    return hashlib.sha256(said.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class UpcomingFire:
    """A fire to come."""

    agent: str
    at: float


def coming_fires(firings: Firings | None, spec: AgentSpec, after: float) -> Iterator[UpcomingFire]:
    """When an agent's schedule fires after `after`, without end. An interval that no server has seen yet counts from
    `after`; `firings` None: there is no store."""
    trigger = spec.trigger
    known = None if firings is None else firings.followed(spec.name, _KIND, schedule_digest(trigger))
    anchor = after if known is None else known.anchor
    return (UpcomingFire(spec.name, at) for at in fires(trigger, zone_of(trigger), after, anchor))


def has_begun(firings: Firings, spec: AgentSpec) -> bool:
    """Whether the fires of a schedule are known: an interval counts from when a server first saw it."""
    return spec.trigger.every is None or firings.followed(spec.name, _KIND, schedule_digest(spec.trigger)) is not None


def next_fire(firings: Firings, spec: AgentSpec, now: float) -> float | None:
    """When an agent's schedule fires next, if it is known: it is enabled, not paused, and an interval has begun."""
    if spec.trigger.type != "schedule" or not spec.enabled or paused_by(firings.pauses(), spec.name):
        return None
    if not has_begun(firings, spec):
        return None
    return next((coming.at for coming in coming_fires(firings, spec, now)), None)


class Scheduler:
    """Makes the firings of all schedules of a workspace."""

    def __init__(self, firings: Firings, registry: Callable[[], Registry], clock: Clock = time.time) -> None:
        self._firings = firings
        self._registry = registry
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}
        """For each agent: the digest of its schedule, and until when this process has looked at it without a break."""

    def look(self) -> float | None:
        """Adds what has become due, and gives when something is due next. Raises StoreError; the next look goes on."""
        now = self._clock()
        scheduled = self._scheduled()
        self._forget_gone({name_key(spec.name) for spec in scheduled}, now)
        following = [self._look_at(spec, now) for spec in scheduled]
        return min((at for at in following if at is not None), default=None)

    def _forget_gone(self, there: Collection[str], now: float) -> None:
        """What an agent missed while its file was gone was missed; a gap of a moment is one of a file being replaced."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in there or now - seen[1] <= _GAP_S}

    def _scheduled(self) -> list[AgentSpec]:
        return [entry.spec for entry in self._registry().agents if entry.spec.trigger.type == "schedule"]

    def _look_at(self, spec: AgentSpec, now: float) -> float | None:
        digest, key = schedule_digest(spec.trigger), name_key(spec.name)
        known = self._firings.follow(spec.name, _KIND, digest)
        if now > known.looked_at:
            slots, dropped = _slots(spec, known, now)
            seen = self._seen.get(key)
            on_time = seen is not None and seen[0] == digest and now - seen[1] <= _LATE_S
            new = list(_firings(spec, slots, dropped, known, on_time=on_time))
            if new and not self._firings.advance(spec.name, _KIND, after=known.looked_at, upto=now, new=new):
                return now  # another process looks too: see what it has left
            if new or seen is None or seen[0] != digest:
                known = self._firings.follow(spec.name, _KIND, digest)
        self._seen[key] = (digest, now)
        zone = zone_of(spec.trigger)
        return next(fires(spec.trigger, zone, max(now, known.looked_at), known.anchor), None)


def _slots(spec: AgentSpec, known: TriggerRecord, now: float) -> tuple[Sequence[float], bool]:
    """The newest slots since the last look, and whether there were older ones."""
    every = spec.trigger.every
    longest = _LONGEST_LOOK_BACK_S if every is None else min(_LONGEST_LOOK_BACK_S, every * (_MOST_MISSED + 1))
    begin = max(known.looked_at, now - longest)
    found = fires(spec.trigger, zone_of(spec.trigger), begin, known.anchor)
    kept: deque[float] = deque(maxlen=_MOST_MISSED)
    dropped = begin > known.looked_at
    for at in takewhile(lambda at: at <= now, found):
        dropped = dropped or len(kept) == _MOST_MISSED
        kept.append(at)
    return list(kept), dropped


def _firings(
    spec: AgentSpec, slots: Sequence[float], dropped: bool, known: TriggerRecord, *, on_time: bool
) -> Iterator[NewFiring]:
    caught_up = {"skip": 0, "once": 1, "all": MOST_CAUGHT_UP}[spec.trigger.catch_up]
    started = len(slots) if on_time else min(caught_up, len(slots))
    missed = len(slots) - started
    if dropped:
        reason = "missed: no server ran; this stands for all between the last one before and the next one after it"
        yield replace(_firing(spec, known.looked_at, reason), key=f"after {slot_key(known.looked_at)}")
    for at in slots[:missed]:
        yield _firing(spec, at, "missed: no server ran")
    for at in islice(slots, missed, None):
        yield _firing(spec, at, None)


def _firing(spec: AgentSpec, at: float, reason: str | None) -> NewFiring:
    return NewFiring(agent=spec.name, trigger=_KIND, key=slot_key(at), due_at=at, reason=reason)

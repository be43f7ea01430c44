"""Computes the times at which a schedule fires, as seconds since 1970, in order.

`cronsim` finds the wall-clock times that an expression names, on a clock that never changes. This module lays them over
the clock of a zone, change by change, since no library keeps all of what `agent-file.md` promises there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim

from agent_md.agents.spec import Trigger

__all__ = ["at_text", "cron_fires", "every_fires", "fires", "zone_of"]

_MINUTE = 60
_SAMPLE_S = 6 * 3600
"""No zone has changed its clock and changed it back within so short a time."""
_LOOK_BACK_S = 2 * 24 * 3600
"""Longer than any hour that comes twice is away from its first half."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a clock that never changes
_NAMES = {
    name: str(number)
    for names, first in (("jan feb mar apr may jun jul aug sep oct nov dec", 1), ("sun mon tue wed thu fri sat", 0))
    for number, name in enumerate(names.split(), first)
}


def zone_of(trigger: Trigger) -> tzinfo:
    """The zone of a schedule: its own, else that of the machine."""
    if trigger.timezone is not None:
        return ZoneInfo(trigger.timezone)
    import tzlocal

    return tzlocal.get_localzone()


def fires(trigger: Trigger, zone: tzinfo, after: float, anchor: float) -> Iterator[float]:
    """The instants after `after`, without end; none for a trigger that is no schedule. `anchor` is when an interval
    was first seen."""
    if trigger.cron is not None:
        return cron_fires(trigger.cron, zone, after)
    return iter(()) if trigger.every is None else every_fires(trigger.every, after, anchor)


def every_fires(every: float, after: float, anchor: float) -> Iterator[float]:
    """`anchor` and one interval, and so on."""
    number = max(1, math.floor((after - anchor) / every) + 1)
    while True:
        at = anchor + number * every
        if at > after:
            yield at
        number += 1


def cron_fires(expression: str, zone: tzinfo, after: float) -> Iterator[float]:
    """The instants after `after` at which a valid expression fires by the clock of `zone`.

    If its minute and its hour both name times (neither begins with `*`), each wall-clock time counts once: one that does
    not exist counts as the first minute after the gap, one that comes twice the first time only; times that fall on the
    same minute are one. Any other expression fires at each real minute that matches.
    """
    minute, hour, *_ = expression.split()
    named = not minute.startswith("*") and not hour.startswith("*")
    clock = _Clock(zone)
    now = math.floor(after)
    seen = clock.latest_before(now) if named else None
    """The latest wall-clock time that has been: times up to it have fired."""
    wall = now + clock.offset(now)
    while True:
        offset = clock.offset(now)
        begin = wall if seen is None else max(wall, seen)
        for at_wall in _wall_times(expression, begin):
            change = clock.change(now, at_wall - offset)
            if change is None:
                now, wall = at_wall - offset, at_wall
                yield float(now)
                continue
            later = clock.offset(change)
            if named and at_wall < change + later:  # in the gap
                wall = _whole_minute(change + later)
                now = wall - later
                yield float(now)
            else:
                if named and later < offset:
                    seen = change + offset - 1
                now, wall = change, change + later - 1
            break
        else:
            return


class _Clock:
    """The clock of a zone, in whole seconds."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone

    def offset(self, at: int) -> int:
        """How far it is ahead of UTC."""
        ahead = datetime.fromtimestamp(at, self._zone).utcoffset() or timedelta()
        return int(ahead.total_seconds())

    def change(self, after: int, upto: int) -> int | None:
        """The first instant in `(after, upto]` at which it is ahead by another amount than at `after`."""
        offset, low = self.offset(after), after
        while low < upto:
            high = min(low + _SAMPLE_S, upto)
            if self.offset(high) != offset:
                return _first(lambda at: self.offset(at) != offset, low, high)
            low = high
        return None

    def latest_before(self, at: int) -> int | None:
        """The latest wall-clock time that it has shown before a change not long before `at`, if it was set back then."""
        change = self.change(at - _LOOK_BACK_S, at)
        if change is None or self.offset(change) >= self.offset(change - 1):
            return None
        return change - 1 + self.offset(change - 1)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first instant that holds, if `high` does and `low` does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _whole_minute(wall: int) -> int:
    return -(-wall // _MINUTE) * _MINUTE


def _wall_times(expression: str, after: int) -> Iterator[int]:
    """The times that the expression names after the wall-clock time `after`, as seconds of that clock."""
    text = re.sub("[a-z]{3}", _number, expression.lower())
    for at in CronSim(text, _EPOCH + timedelta(seconds=after)):
        yield round((at - _EPOCH).total_seconds())


def _number(name: re.Match[str]) -> str:
    """`-sun` is the end of a week, which is 7 then."""
    if name[0] == "sun" and name.string[: name.start()].endswith("-"):
        return "7"
    return _NAMES[name[0]]


def at_text(at: float, zone: tzinfo) -> str:
    """An instant as ISO 8601 with the offset of the zone."""
    return datetime.fromtimestamp(at, UTC).astimezone(zone).isoformat(timespec="seconds")

"""When a cron expression fires, found minute by minute: slow, obvious, and written without the product's code."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

__all__ = ["fires_between"]

_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MONTHS = ["", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MINUTE = timedelta(minutes=1)


def fires_between(expression: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """The minutes in `[begin, end)`, both whole minutes in UTC, at which it fires."""
    minute, hour, *_ = expression.split()
    named = minute[0] != "*" and hour[0] != "*"
    fields = _fields(expression)
    there = ZoneInfo(zone)
    fired = []
    shown: set[datetime] = set()
    before: datetime | None = None
    at = begin - timedelta(days=2)
    while at < end:
        wall = at.astimezone(there).replace(tzinfo=None)
        due = _fits(fields, wall) and not (named and wall in shown)
        if named and before is not None:
            due = due or any(_fits(fields, missing) for missing in _between(before, wall))
        if due and at >= begin:
            fired.append(at)
        shown.add(wall)
        before = wall
        at += _MINUTE
    return fired


def _between(before: datetime, wall: datetime) -> Iterator[datetime]:
    """The minutes that the clock left out."""
    missing = before + _MINUTE
    while missing < wall:
        yield missing
        missing += _MINUTE


Fields = tuple[set[int], set[int], set[int], set[int], set[int], bool]


def _fields(expression: str) -> Fields:
    minute, hour, day, month, weekday = expression.lower().split()
    for number, name in enumerate(_MONTHS[1:], 1):
        month = month.replace(name, str(number))
    weekday = weekday.replace("-sun", "-7")
    for number, name in enumerate(_DAYS):
        weekday = weekday.replace(name, str(number))
    either = day[0] != "*" and weekday[0] != "*"
    return (
        _numbers(minute, 0, 59),
        _numbers(hour, 0, 23),
        _numbers(day, 1, 31),
        _numbers(month, 1, 12),
        {number % 7 for number in _numbers(weekday, 0, 6 if weekday[0] == "*" else 7)},
        either,
    )


def _numbers(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        begin = low if span == "*" else int(first)
        end = high if span == "*" else int(last or first)
        found.update(range(begin, end + 1, int(step or 1)))
    return found


def _fits(fields: Fields, wall: datetime) -> bool:
    minutes, hours, days, months, weekdays, either = fields
    if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
        return False
    day, weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
    return (day or weekday) if either else (day and weekday)

"""Cron expressions of five fields with the standard meaning: 0 and 7 are Sunday."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Cron", "parse_cron"]

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_LONGEST_MONTHS = {1: 31, 2: 29, 3: 31, 4: 30, 5: 31, 6: 30, 7: 31, 8: 31, 9: 30, 10: 31, 11: 30, 12: 31}
_ITEM = re.compile(r"(?P<first>\*|[0-9]{1,2}|[a-z]{3})(?:-(?P<last>[0-9]{1,2}|[a-z]{3}))?(?:/(?P<step>[0-9]{1,3}))?")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    words: dict[str, int]


_FIELDS = (
    _Field("a minute", 0, 59, {}),
    _Field("an hour", 0, 23, {}),
    _Field("a day of the month", 1, 31, {}),
    _Field("a month", 1, 12, _MONTHS),
    _Field("a day of the week", 0, 7, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Cron:
    """The times an expression allows. `weekdays` are 0 (Sunday) to 6.

    When `every_day` and `every_weekday` are both False, a day counts if it fits either `days` or `weekdays`.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    every_day: bool
    every_weekday: bool


def parse_cron(text: str) -> Cron:
    """The expression's meaning. Raises ValueError naming the field that is wrong."""
    parts = text.lower().split()
    if text.startswith("@"):
        raise ValueError(f'"{text}" is not supported; write its five fields, such as 0 8 * * * for every day at 8:00')
    if len(text) > _LONGEST or len(parts) != len(_FIELDS):
        raise ValueError(
            f'expected five fields (minute, hour, day of the month, month, day of the week), read {len(parts)} in "{text[:_LONGEST]}"'
        )
    minutes, hours, days, months, weekdays = (_values(part, field) for part, field in zip(parts, _FIELDS, strict=True))
    cron = Cron(
        minutes,
        hours,
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        every_day=parts[2].startswith("*"),
        every_weekday=parts[4].startswith("*"),
    )
    if cron.every_weekday and min(days) > max(_LONGEST_MONTHS[month] for month in months):
        raise ValueError(f'"{text}" never happens: no such month has a day {min(days)}')
    return cron


def _values(part: str, field: _Field) -> frozenset[int]:
    return frozenset(value for item in part.split(",") for value in _item(item, field))


def _item(item: str, field: _Field) -> range:
    found = _ITEM.fullmatch(item)
    if not found or (found["first"] == "*" and found["last"]):
        raise ValueError(f'"{item}" is not {field.name}; write a number, a range a-b, a list a,b or a step */n')
    if found["first"] == "*":
        first, last = field.low, min(field.high, 6) if field.words is _DAYS else field.high
    else:
        first = _number(found["first"], field)
        last = _number(found["last"], field) if found["last"] else first
        if last == 0 and first > 0 and found["last"] == "sun":
            last = 7
    return _stepped(item, field, first, last, found["step"], single=found["first"] != "*" and not found["last"])


def _stepped(item: str, field: _Field, first: int, last: int, step: str | None, *, single: bool) -> range:
    if first > last:
        raise ValueError(f'"{item}" runs backwards; write two ranges, such as {first}-{field.high},{field.low}-{last}')
    if step is None:
        return range(first, last + 1)
    if single:
        raise ValueError(f'"{item}" has a step but no range; write {first}-{field.high}/{step}')
    if not 0 < int(step) <= field.high:
        raise ValueError(f'the step of "{item}" is {int(step)}; it must be from 1 to {field.high}')
    return range(first, last + 1, int(step))


def _number(text: str, field: _Field) -> int:
    value = field.words.get(text) if text.isalpha() else int(text)
    if value is None:
        names = f" (the names are {', '.join(field.words)})" if field.words else ""
        raise ValueError(f'"{text}" is not {field.name}{names}')
    if not field.low <= value <= field.high:
        raise ValueError(f"{value} is not {field.name}; it must be from {field.low} to {field.high}")
    return value

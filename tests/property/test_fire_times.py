"""Schedules fire as an oracle that looks at every minute says, also where clocks change."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest

from agent_md.agents.cron_syntax import parse_cron
from agent_md.triggers.fire_times import cron_fires, every_fires
from tests.support.cron_oracle import fires_between

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",  # half an hour
    "Pacific/Apia",  # skipped 2011-12-30
    "America/Sao_Paulo",  # changes at midnight, until 2019
    "Africa/Casablanca",  # is set back for Ramadan
    "Asia/Kathmandu",  # +05:45, no changes
    "UTC",
)
EXPRESSIONS = (
    *("* * * * *", "*/7 * * * *", "0 * * * *", "30 * * * *", "15,45 * * * *", "*/20 1-3 * * *", "0 */2 * * *"),
    *("*/15 2 * * *", "* 2 * * *", "5 */3 * * sun", "0 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "0 2 * * *"),
    *("15 2 * * *", "30 2 * * *", "45 2 * * *", "59 2 * * *", "0 3 * * *", "15,45 2 * * *", "0,30 1-3 * * *"),
    *("0-59 2 * * *", "1-59/2 0-23 * * *", "0 0-23/3 * * *", "0 12 * * 0", "0 12 * * 7", "30 2 * * sun", "0 2 1 * *"),
    *(
        "30 1 1,15 * mon",
        "30 2 31 * *",
        "30 2 */2 * *",
        "30 2 * mar,oct sun",
        "0 0 29 2 *",
        "45 1 1-7 * *",
        "0 0 * * 1-5",
    ),
    *("10 2-3 * 3-4 *", "30 2 * * fri-sun", "0 2 * 9-11 0-6/2", "30 23 31 12 *", "0 10 30 12 *"),
)
WEEK = timedelta(days=7)


def span(expression: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    found = cron_fires(expression, ZoneInfo(zone), begin.timestamp() - 1)
    return [datetime.fromtimestamp(at, UTC) for at in takewhile(lambda at: at < end.timestamp(), found)]


def check(expression: str, zone: str, begin: datetime, end: datetime) -> None:
    assert span(expression, zone, begin, end) == fires_between(expression, zone, begin, end), (expression, zone, begin)


def changes(zone: str, years: range) -> Iterator[datetime]:
    """About when the clock of a zone changes."""
    there = ZoneInfo(zone)
    at = datetime(years.start, 1, 1, tzinfo=UTC)
    while at.year < years.stop:
        later = at + timedelta(hours=6)
        if at.astimezone(there).utcoffset() != later.astimezone(there).utcoffset():
            yield at
        at = later


def weeks(zone: str) -> list[datetime]:
    around = [at - WEEK / 2 for at in changes(zone, range(2024, 2027))]
    chance = random.Random(zone)
    around += [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(minutes=chance.randrange(5_000_000)) for _ in range(2)]
    if zone == "Pacific/Apia":
        around.append(datetime(2011, 12, 27, tzinfo=UTC))
    if zone == "America/Sao_Paulo":
        around += [at - WEEK / 2 for at in changes(zone, range(2017, 2019))]
    return around


CASES = [(expression, zone) for expression in EXPRESSIONS for zone in ZONES]


@pytest.mark.parametrize("zone", ZONES)
def test_weeks_around_changes_of_clocks_and_at_random(zone: str) -> None:
    for expression in random.sample(EXPRESSIONS, len(EXPRESSIONS) // 20):
        for begin in weeks(zone):
            check(expression, zone, begin, begin + WEEK)


@pytest.mark.stress
@pytest.mark.parametrize(("expression", "zone"), CASES)
def test_every_expression_in_every_zone(expression: str, zone: str) -> None:
    for begin in weeks(zone):
        check(expression, zone, begin, begin + WEEK)


@pytest.mark.stress
@pytest.mark.parametrize("expression", [e for e in EXPRESSIONS if not e.startswith("*")][:10])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe"])
def test_a_whole_year(expression: str, zone: str) -> None:
    begin = datetime(2025, 1, 1, tzinfo=UTC)
    check(expression, zone, begin, begin + timedelta(days=365))


def test_all_of_them_can_stand_in_an_agent_file() -> None:
    for expression in EXPRESSIONS:
        assert parse_cron(expression).minutes, expression


BERLIN = "Europe/Berlin"
LORD_HOWE = "Australia/Lord_Howe"


@pytest.mark.parametrize(
    ("expression", "zone", "begin", "fired"),
    [
        ("30 2 * * *", BERLIN, "2026-03-29T00:00", ["01:00"]),  # 2:30 is missing: 3:00
        ("15,45 2 * * *", BERLIN, "2026-03-29T00:00", ["01:00"]),  # both fall on 3:00
        ("0,30 2-3 * * *", BERLIN, "2026-03-29T00:00", ["01:00", "01:30"]),
        ("*/30 2 * * *", BERLIN, "2026-03-29T00:00", []),  # elapsed time: nothing extra
        ("30 2 * * *", BERLIN, "2026-10-25T00:00", ["00:30"]),  # twice: the first time
        ("*/30 2 * * *", BERLIN, "2026-10-25T00:00", ["00:00", "00:30", "01:00", "01:30"]),
        ("30 * * * *", BERLIN, "2026-10-25T00:00", ["00:30", "01:30", "02:30"]),
        ("15 2 * * *", LORD_HOWE, "2026-10-03T15:00", ["15:30"]),  # 2:00 to 2:30 is missing
        ("45 1 * * *", LORD_HOWE, "2026-04-04T14:00", ["14:45"]),  # 1:30 to 2:00 comes twice
        ("*/15 1 * * *", LORD_HOWE, "2026-04-04T14:00", ["14:00", "14:15", "14:30", "14:45", "15:00", "15:15"]),
        ("0 10 * * *", "Pacific/Apia", "2011-12-30T09:00", ["10:00"]),  # the whole day is missing: its midnight
    ],
)
def test_what_a_change_of_the_clock_does(expression: str, zone: str, begin: str, fired: list[str]) -> None:
    first = datetime.fromisoformat(begin).replace(tzinfo=UTC)
    found = span(expression, zone, first, first + timedelta(hours=3))
    assert [f"{at:%H:%M}" for at in found] == fired
    check(expression, zone, first, first + timedelta(hours=3))


@pytest.mark.parametrize("minutes", range(0, 180, 7))
def test_wherever_it_is_looked_from_the_rest_is_the_same(minutes: int) -> None:
    for expression in ("30 2 * * *", "*/20 * * * *", "10,50 1-3 * * *"):
        for day in ("2026-03-29T00:00", "2026-10-25T00:00"):
            begin = datetime.fromisoformat(day).replace(tzinfo=UTC) + timedelta(minutes=minutes)
            check(expression, BERLIN, begin, begin + timedelta(hours=6))


def test_an_instant_itself_is_not_after_it() -> None:
    at = datetime(2026, 6, 1, 8, 0, tzinfo=UTC).timestamp()
    assert next(cron_fires("0 8 * * *", UTC, at)) == at + 86_400
    assert next(cron_fires("0 8 * * *", UTC, at - 0.5)) == at
    assert next(cron_fires("0 8 * * *", UTC, at + 0.5)) == at + 86_400


def test_an_interval_counts_from_its_anchor() -> None:
    found = every_fires(90.0, 1000.0, 1000.0)
    assert [next(found) for _ in range(3)] == [1090.0, 1180.0, 1270.0]
    assert next(every_fires(90.0, 1090.0, 1000.0)) == 1180.0
    assert next(every_fires(90.0, 1089.9, 1000.0)) == 1090.0
    assert next(every_fires(90.0, 5.0, 1000.0)) == 1090.0  # a clock that went back

"""Formats times for people: day and time in a zone; None = the local zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

__all__ = ["date", "date_time", "time_of_day"]


def time_of_day(at: float, zone: tzinfo | None = None) -> str:
    """`17:03:12`."""
    return f"{_local(at, zone):%H:%M:%S}"


def date(at: float, zone: tzinfo | None = None) -> str:
    """`2026-03-08`."""
    return f"{_local(at, zone):%Y-%m-%d}"


def date_time(at: float, zone: tzinfo | None = None) -> str:
    """`2026-03-08 17:03:12`."""
    return f"{_local(at, zone):%Y-%m-%d %H:%M:%S}"


def _local(at: float, zone: tzinfo | None) -> datetime:
    return datetime.fromtimestamp(at, UTC).astimezone(zone)

"""Parses times that people write, and computes the start of a day."""

from __future__ import annotations

import time
from datetime import datetime, tzinfo

__all__ = ["instant_of", "local_midnight", "utc_text"]


def local_midnight(at: float) -> float:
    """When the day of a moment began in the zone of this machine; both in seconds since 1970.

    The offset is that of midnight: on the day on which the clocks change, that of the moment is another.
    """
    day = time.localtime(at)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))


def instant_of(text: str, zone: tzinfo | None) -> float:
    """Seconds since 1970 of a time in ISO 8601; one without an offset is of `zone`. Raises ValueError."""
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is no time; write it as 2026-03-29, 2026-03-29T02:30 or with an offset") from None


def utc_text(at: float) -> str:
    """A time as the messages of errors have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))

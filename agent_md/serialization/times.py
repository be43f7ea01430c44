"""Times and durations as text."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["duration_text", "iso_time"]

_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60))


def iso_time(at: float | None) -> str | None:
    """Seconds since 1970 as `2026-03-08T16:03:12.345Z`."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def duration_text(seconds: float | None) -> str | None:
    """A duration as agent files write it, in the largest unit that is exact: `90s`, `5m`, `1d`."""
    if seconds is None:
        return None
    for unit, size in _UNITS:
        if seconds and seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return f"{seconds:g}s"

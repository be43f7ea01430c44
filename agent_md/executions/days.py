"""Days as the people have them who set limits for a day."""

from __future__ import annotations

import time

__all__ = ["local_midnight"]


def local_midnight(at: float) -> float:
    """When the day of a moment began in the zone of this machine; both in seconds since 1970.

    The offset is that of midnight: on the day on which the clocks change, that of the moment is another.
    """
    day = time.localtime(at)
    return time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))

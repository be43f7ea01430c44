"""Formats durations for people."""

from __future__ import annotations

__all__ = ["spent"]


def spent(seconds: float) -> str:
    """A time that has passed, in its two largest units: `4 s`, `2 min 5 s`, `3 h 20 min`, `2 d 1 h`."""
    whole = max(0, int(seconds))
    units = [("d", whole // 86_400), ("h", whole // 3_600 % 24), ("min", whole // 60 % 60), ("s", whole % 60)]
    first = next((at for at, (_, count) in enumerate(units) if count), len(units) - 1)
    return " ".join(f"{count} {unit}" for unit, count in units[first : first + 2] if count) or "0 s"

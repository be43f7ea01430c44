"""Sums of the costs of model calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Cost", "CostBy", "total"]


class CostBy(StrEnum):
    """By what costs are summed up; a day is one of the zone of this machine."""

    DAY = "day"
    AGENT = "agent"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Cost:
    """The model calls of one day (`2026-03-08`), agent or model (`provider/name`), those of removed executions too.
    `known_usd` is the cost of the calls whose cost is known, all but `unknown` of them."""

    key: str
    calls: int
    input_tokens: int
    output_tokens: int
    known_usd: float
    unknown: int = 0

    @property
    def usd(self) -> float | None:
        """The cost of all of them; None if that of one is unknown."""
        return None if self.unknown else self.known_usd


def total(costs: Iterable[Cost]) -> Cost:
    """The sum of all of them, with the key `Total`."""
    summed = Cost("Total", 0, 0, 0, 0.0)
    for cost in costs:
        summed = Cost(
            summed.key,
            summed.calls + cost.calls,
            summed.input_tokens + cost.input_tokens,
            summed.output_tokens + cost.output_tokens,
            summed.known_usd + cost.known_usd,
            summed.unknown + cost.unknown,
        )
    return summed

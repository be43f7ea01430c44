"""The table of costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_md.cli.views.money import dollars
from agent_md.cli.views.table_layout import Listing
from agent_md.executions.costs import Cost, CostBy, total
from agent_md.executions.spending import DAILY_LIMIT, Scope
from agent_md.visible_text import counted, one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["cost_table", "day_limit_line"]


def cost_table(by: CostBy, costs: Sequence[Cost], number: int) -> list[RenderableType]:
    """The first `number` of the sums, and the sum of all of them."""
    if not costs:
        return ["No model was asked yet."]
    cells = [_cells(cost) for cost in (*costs[:number], total(costs))]
    shown: list[RenderableType] = [Listing((by.title(), "Calls", "Tokens", "Cost"), cells, yielding=(0,))]
    if len(costs) > number:
        shown.append(f"The total is of {counted(len(costs), by)}; -n {len(costs)} shows all")
    return shown


def _cells(cost: Cost) -> tuple[str, ...]:
    tokens = cost.input_tokens + cost.output_tokens
    return one_line(cost.key), f"{cost.calls:,}", f"{tokens:,}", _money(cost)


def _money(cost: Cost) -> str:
    """Formats a cost; an unknown cost is never 0, but shown as the known part and the number of unknown calls."""
    if not cost.unknown:
        return dollars(cost.known_usd)
    if cost.unknown == cost.calls:
        return "unknown"
    return f"{dollars(cost.known_usd)} and {counted(cost.unknown, 'call')} of unknown cost"


def day_limit_line(scope: Scope, limit: float, spent: float | None) -> str:
    """How far a limit of the day is used up."""
    return f"Today: {dollars(spent)} of ${limit:g} ({DAILY_LIMIT} of the {scope})"

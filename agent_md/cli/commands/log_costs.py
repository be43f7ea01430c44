"""`logs --cost`: costs by day, agent or model, and what is left of today's limits."""

from __future__ import annotations

import time
from collections.abc import Mapping

from agent_md.app import App
from agent_md.cli.terminal.output import say
from agent_md.cli.views.cost_table import cost_table, day_limit_line
from agent_md.errors import UsageError
from agent_md.executions.costs import CostBy, total
from agent_md.executions.days import local_midnight
from agent_md.executions.spending import Scope
from agent_md.serialization import cost_json
from agent_md.visible_text import json_line

__all__ = ["check_options", "say_costs"]


def check_options(by: CostBy | None, *, cost: bool, others: Mapping[str, object]) -> None:
    """Raises UsageError for options that mean nothing together; `others` are values, None = not given."""
    if by is not None and not cost:
        raise UsageError(f"--by {by} sums up what --cost shows: give both")
    if cost and (given := [name for name, value in others.items() if value is not None]):
        raise UsageError(f"--cost shows sums, and {given[0]} something else: give one of them")


def say_costs(app: App, agent: str | None, by: CostBy, *, since: float | None, limit: int, as_json: bool) -> None:
    """Shows the first `limit` sums, of all executions or those of one agent, of calls since a time or of all."""
    found = app.reading_store.costs(by, agents=None if agent is None else (agent,), since=since)
    limits = _spent_of_limits(app, agent)
    if as_json:
        say(
            json_line(
                {
                    "by": by,
                    "costs": [{str(by): cost.key, **cost_json(cost)} for cost in found[:limit]],
                    "total": cost_json(total(found)),
                    "limits": [
                        {"scope": scope, "limit_usd": amount, "spent_usd": spent} for scope, amount, spent in limits
                    ],
                }
            )
        )
        return
    say(*cost_table(by, found, limit))
    say(*(day_limit_line(*of_day) for of_day in limits))


def _spent_of_limits(app: App, agent: str | None) -> list[tuple[Scope, float, float | None]]:
    """The daily limits in effect, each with the spent amount: of the workspace, and of the named agent."""
    midnight = local_midnight(time.time())
    found: list[tuple[Scope, float, float | None]] = []
    spec = None if agent is None else app.registry.current_spec(agent)
    if spec is not None and spec.settings.max_cost_usd_per_day is not None:
        found.append((Scope.AGENT, spec.settings.max_cost_usd_per_day, app.reading_store.spent(midnight, agent)))
    if (limit := app.settings.max_cost_usd_per_day) is not None:
        found.append((Scope.WORKSPACE, limit, app.reading_store.spent(midnight)))
    return found

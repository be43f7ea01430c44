"""What `logs --cost` says: an unknown cost is never taken for 0, and a total is of everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_md.cli.views.cost_table import cost_table, day_limit_line
from agent_md.executions.costs import Cost, CostBy, total
from agent_md.executions.spending import Scope
from tests.support.rendering import lines_of

KNOWN = Cost("2026-03-08", 12, 1000, 234, 1.25)
SOME = Cost("2026-03-07", 3, 10, 5, 0.5, unknown=2)
NONE = Cost("2026-03-06", 1, 10, 5, 0.0, unknown=1)


def test_a_table_has_a_row_for_each_and_their_sum() -> None:
    assert lines_of(*cost_table(CostBy.DAY, [KNOWN, SOME, NONE], 20)) == [
        " Day         Calls  Tokens  Cost",
        " " + "─" * 62,
        " 2026-03-08  12     1,234   $1.2500",
        " 2026-03-07  3      15      $0.5000 and 2 calls of unknown cost",
        " 2026-03-06  1      15      unknown",
        " Total       16     1,264   $1.7500 and 3 calls of unknown cost",
    ]


def test_the_table_of_the_page_is_a_real_one() -> None:
    google = Cost("google/gemini-2.5-flash", 210, 1_180_204, 24_127, 0.4144)
    ollama = Cost("ollama/qwen3", 12, 40_112, 5_102, 0.0, unknown=12)
    shown = [*lines_of(*cost_table(CostBy.MODEL, [google, ollama], 20)), day_limit_line(Scope.WORKSPACE, 5, 0.0312)]
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text(encoding="utf-8")
    assert "\n".join(["$ agentmd logs --cost --by model", *shown, "```"]) in page


def test_a_total_is_also_of_what_is_not_shown() -> None:
    lines = lines_of(*cost_table(CostBy.MODEL, [KNOWN, KNOWN], 1))
    assert lines[-2:] == [" Total       24     2,468   $2.5000", "The total is of 2 models; -n 2 shows all"]


def test_names_are_shown_as_text() -> None:
    assert "a\\nb" in lines_of(*cost_table(CostBy.AGENT, [Cost("a\nb", 1, 1, 1, 0.0)], 20))[2]


def test_nothing_was_spent_yet() -> None:
    assert lines_of(*cost_table(CostBy.DAY, [], 20)) == ["No model was asked yet."]
    assert total([]).usd == 0.0


@pytest.mark.parametrize(
    ("spent", "told"),
    [
        (1.25, "Today: $1.2500 of $20 (max_cost_usd_per_day of the workspace)"),
        (None, "Today: unknown cost of $20 (max_cost_usd_per_day of the workspace)"),
    ],
)
def test_how_far_a_limit_is_used_up(spent: float | None, told: str) -> None:
    assert day_limit_line(Scope.WORKSPACE, 20, spent) == told

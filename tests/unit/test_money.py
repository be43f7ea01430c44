"""Costs as people read them."""

from __future__ import annotations

import pytest

from agent_md.cli.views.money import dollars


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        (None, "unknown cost"),
        (0.0, "$0.0000"),
        (0.00001, "<$0.0001"),
        (0.0001, "$0.0001"),
        (0.00123, "$0.0012"),
        (12.5, "$12.5000"),
    ],
)
def test_a_small_cost_never_looks_like_none(cost: float | None, shown: str) -> None:
    assert dollars(cost) == shown

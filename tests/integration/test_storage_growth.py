"""What a long conversation takes on disk: it grows with what was said, step by step the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.long_run import LongRun
from tests.support.processes import preload

pytestmark = pytest.mark.stress  # slow, and about what seldom changes

MB = 1_000_000
LIMIT = 12 * MB
"""For 500 turns, each a kilobyte of text, a call, and a kilobyte of result; side files included."""


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    preload()


def bytes_of(tmp_path: Path, turns: int) -> int:
    run = LongRun(tmp_path / str(turns), turns)
    ended = run.run()
    assert (ended.code, ended.out) == (0, "All done.\n"), ended
    assert set(run.sizes()) == {"agentmd.db", "agentmd_checkpoints.db"}
    return sum(run.sizes().values())


def test_a_step_costs_the_same_at_any_length(tmp_path: Path) -> None:
    start, half, whole = (bytes_of(tmp_path, turns) for turns in (2, 26, 50))
    assert whole < LIMIT * 50 / 500
    first, second = half - start, whole - half
    assert second <= 1.3 * first


def test_the_side_files_stay_small(tmp_path: Path) -> None:
    run = LongRun(tmp_path / "ws", 50)
    assert run.run(kill_in_call_of=49).killed
    sides = {name: size for name, size in run.sizes().items() if not name.endswith(".db")}
    assert len(sides) == 4
    assert all(size < MB for size in sides.values()), sides


@pytest.mark.stress
def test_five_hundred_turns(tmp_path: Path) -> None:
    run = LongRun(tmp_path / "ws", 500)
    assert run.run(kill_in_call_of=499).killed
    assert sum(run.sizes().values()) < LIMIT, run.sizes()
    ended = run.cli("resume", "--all", "-q")
    assert (ended.code, ended.out) == (0, "All done.\n"), ended
    assert sum(run.sizes().values()) < LIMIT, run.sizes()

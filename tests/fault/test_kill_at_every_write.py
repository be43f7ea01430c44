"""kill -9 right before every single write of every process that takes part in an execution."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.damage import DAMAGES
from tests.support.processes import Finished
from tests.support.world import World


def _whole_story(world: World, kill: tuple[int, int] | None = None) -> list[int]:
    """Runs the agent to its end, one process after the other; `kill` = (process, write). Gives each one's writes."""
    writes: list[int] = []

    def step(ended: Finished) -> None:
        writes.append(0 if ended.killed else world.cli.writes_of_last())

    def at() -> int | None:
        return kill[1] if kill is not None and kill[0] == len(writes) else None

    step(world.cli("run", "worker", kill_before_write=at()))
    while True:
        status = world.status()
        if status is None or status.final:
            break
        requests = world.open_requests()
        if not requests or status != "waiting":
            break
        step(world.respond(requests[0], kill_before_write=at()))
    return writes


def test_the_story_without_a_kill(world: World) -> None:
    writes = _whole_story(world)
    world.check()
    assert len(writes) == 7
    assert all(count > 10 for count in writes)


def _points(tmp_path: Path) -> list[tuple[int, int]]:
    writes = _whole_story(World(tmp_path / "count"))
    return [(process, write) for process, count in enumerate(writes) for write in range(1, count + 1)]


LOSSES = {"kept": None, "deleted": "deleted", "truncated": "cut in the middle", "garbage": "all garbage"}
"""What becomes of the checkpoint file after the kill; an empty or missing one is left as it is."""


def _check_kills(tmp_path: Path, points: list[tuple[int, int]], loss: Callable[[], str | None]) -> None:
    for process, write in points:
        world = World(tmp_path / f"{process}-{write}")
        kind = loss()
        try:
            _whole_story(world, (process, write))
            if kind == "deleted":
                world.lose_checkpoints()
            elif kind is not None and world.checkpoints.exists() and world.checkpoints.stat().st_size:
                DAMAGES[kind](world.checkpoints)
            world.finish()
            world.check()
        except AssertionError as error:
            raise AssertionError(f"killed before write {write} of process {process}, file {kind}: {error}") from error


def test_killed_before_one_write_in_thirty_and_the_checkpoints_kept_lost_or_damaged(tmp_path: Path) -> None:
    kinds = itertools.cycle(LOSSES.values())
    _check_kills(tmp_path, _points(tmp_path)[random.randrange(30) :: 30], lambda: next(kinds))


@pytest.mark.stress
@pytest.mark.parametrize("loss", LOSSES)
def test_killed_before_every_write(tmp_path: Path, loss: str) -> None:
    _check_kills(tmp_path, _points(tmp_path), lambda: LOSSES[loss])

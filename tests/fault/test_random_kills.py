"""Sequences of random kills, with the checkpoint file lost or rolled back in between."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent_md.executions.states import Status
from tests.support.world import World

pytestmark = pytest.mark.stress  # slow, and about what seldom changes

_LONGEST_COMMAND = 90
"""Writes of the longest command of the story; a kill beyond the end of a command does not happen."""


def _check_storm(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    world = World(folder / "ws")
    copy = folder / "copy"
    deaths = 0
    for _ in range(12):
        status = world.status()
        if status is not None and status.final:
            break
        kill = chance.randint(1, _LONGEST_COMMAND) if chance.random() < 0.8 else None
        if status is None:
            ended = world.cli("run", "worker", kill_before_write=kill)
        elif status is Status.WAITING:
            ended = world.respond(chance.choice(world.open_requests()), kill_before_write=kill)
        else:
            ended = world.cli("resume", "--all", kill_before_write=kill)
        deaths += ended.killed
        lost = chance.random()
        if lost < 0.2:
            world.lose_checkpoints()
        elif lost < 0.4:
            world.lose_checkpoints(copy)
        elif lost < 0.7:
            world.copy_checkpoints(copy)
    if _poisoned(world):
        return
    world.finish()
    if not _poisoned(world):
        world.check()


def _poisoned(world: World) -> bool:
    """Three deaths in a row without progress, or two in a call, end an execution by design; then that must be what it says."""
    if world.status() is not Status.ERROR:
        return False
    store = world.store()
    try:
        (execution,) = store.executions()
    finally:
        store.close()
    assert "poisoned" in (execution.error or ""), execution
    return True


@pytest.mark.parametrize("seed", range(3))
def test_random_kills(tmp_path: Path, seed: int) -> None:
    _check_storm(tmp_path, seed)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_kills(tmp_path: Path, seed: int) -> None:
    _check_storm(tmp_path, seed)

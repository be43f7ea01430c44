"""kill -9 right before every single write of every process that takes part in an execution."""

from __future__ import annotations

import itertools
import random

import pytest

from tests.support.damage import DAMAGES
from tests.support.world import Story

PROCESSES = 7
"""So many take part in the story: one that runs the agent, and one for each answer."""


def test_the_story_without_a_kill(story: Story) -> None:
    assert len(story.writes) == PROCESSES
    assert all(count > 10 for count in story.writes)


LOSSES = {"kept": None, "deleted": "deleted", "truncated": "cut in the middle", "garbage": "all garbage"}
"""What becomes of the checkpoint file after the kill; an empty or missing one is left as it is."""


def _check_kill(story: Story, process: int, write: int, loss: str | None) -> None:
    world = story.before(process)
    try:
        assert world.step(kill_before_write=write).killed
        if loss == "deleted":
            world.lose_checkpoints()
        elif loss is not None and world.checkpoints.exists() and world.checkpoints.stat().st_size:
            DAMAGES[loss](world.checkpoints)
        world.finish()
        world.check()
    except AssertionError as error:
        raise AssertionError(f"killed before write {write} of process {process}, file {loss}: {error}") from error


def test_killed_before_one_write_in_sixty_and_the_checkpoints_kept_lost_or_damaged(story: Story) -> None:
    kinds = itertools.cycle(LOSSES.values())
    for process, write in story.points[random.randrange(60) :: 60]:
        _check_kill(story, process, write, next(kinds))


@pytest.mark.stress
@pytest.mark.parametrize("process", range(PROCESSES))
@pytest.mark.parametrize("loss", LOSSES)
def test_killed_before_every_write(story: Story, loss: str, process: int) -> None:
    for write in range(1, story.writes[process] + 1):
        _check_kill(story, process, write, LOSSES[loss])

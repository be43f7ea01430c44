"""kill -9 right before every single write of every process that takes part in an execution."""

from __future__ import annotations

import itertools
import random
import shutil
from pathlib import Path

import pytest

from agent_md.executions.model import Status
from tests.support.damage import DAMAGES
from tests.support.processes import Finished
from tests.support.world import World

PROCESSES = 7
"""So many take part in the story: one that runs the agent, and one for each answer."""


class Story:
    """The agent run to its end, one process after the other, and the workspace as it was before each of them."""

    def __init__(self, folder: Path) -> None:
        self._workspace = folder / "workspace"
        self._before = folder / "before"
        self._answered: list[dict[str, tuple[str, ...]]] = []
        self.writes: list[int] = []
        self.world = World(self._workspace)
        while self._goes_on():
            self._answered.append(dict(self.world.answered))
            shutil.copytree(self._workspace, self._before / str(len(self.writes)), symlinks=True)
            self._next_process()
            self.writes.append(self.world.cli.writes_of_last())

    def killed(self, process: int, write: int) -> World:
        """The workspace after this process was killed before its n-th write, from 1."""
        shutil.rmtree(self._workspace)
        shutil.copytree(self._before / str(process), self._workspace, symlinks=True)
        self.world.answered = dict(self._answered[process])
        ended = self._next_process(write)
        assert ended.killed, ended
        return self.world

    def _goes_on(self) -> bool:
        return self.world.status() in (None, Status.WAITING)

    def _next_process(self, write: int | None = None) -> Finished:
        if self.world.status() is None:
            return self.world.cli("run", "worker", kill_before_write=write)
        return self.world.respond(self.world.open_requests()[0], kill_before_write=write)


LOSSES = {"kept": None, "deleted": "deleted", "truncated": "cut in the middle", "garbage": "all garbage"}
"""What becomes of the checkpoint file after the kill; an empty or missing one is left as it is."""


def _check_kill(story: Story, process: int, write: int, loss: str | None) -> None:
    try:
        world = story.killed(process, write)
        if loss == "deleted":
            world.lose_checkpoints()
        elif loss is not None and world.checkpoints.exists() and world.checkpoints.stat().st_size:
            DAMAGES[loss](world.checkpoints)
        world.finish()
        world.check()
    except AssertionError as error:
        raise AssertionError(f"killed before write {write} of process {process}, file {loss}: {error}") from error


def test_killed_before_one_write_in_forty_and_the_checkpoints_kept_lost_or_damaged(tmp_path: Path) -> None:
    story = Story(tmp_path)
    story.world.check()
    assert len(story.writes) == PROCESSES
    assert all(count > 10 for count in story.writes)
    points = [(process, write) for process, count in enumerate(story.writes) for write in range(1, count + 1)]
    kinds = itertools.cycle(LOSSES.values())
    for process, write in points[random.randrange(40) :: 40]:
        _check_kill(story, process, write, next(kinds))


@pytest.mark.stress
@pytest.mark.parametrize("process", range(PROCESSES))
@pytest.mark.parametrize("loss", LOSSES)
def test_killed_before_every_write(tmp_path: Path, loss: str, process: int) -> None:
    story = Story(tmp_path)
    for write in range(1, story.writes[process] + 1):
        _check_kill(story, process, write, LOSSES[loss])

"""kill -9 at the writes of an answer that gives a grant, and of the drive that uses it: both or neither, and nothing twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, Decision, Status
from tests.support.world import World

TWO_CALLS = """
conversations:
  - turns:
      - {calls: [{name: danger, args: {key: A}}]}
      - {calls: [{name: danger, args: {key: A}}]}
      - {text: End.}
"""
ALWAYS = ("respond", "1", "--request", "1-0.0", "--always")


def asking(folder: Path) -> World:
    """An execution that asks, and would ask the same again."""
    world = World(folder)
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(TWO_CALLS)
    assert world.cli("run", "worker").code == 3
    return world


def check_given(world: World) -> bool:
    """Whether the answer is stored; the grant is exactly then."""
    store = world.store()
    try:
        (request, *_) = store.requests(ExecutionId(1))
        grants = store.grants.listed(ended=True)
        assert [grant.id for grant in grants] == ([] if request.answer is None else [request.answer.grant_id])
        return request.answer is not None
    finally:
        store.close()


def check_end(world: World) -> None:
    """Goes on to the end: the second call runs by the one grant, asked about by nobody."""
    while (status := world.status()) is not None and not status.final:
        assert world.cli("resume", "--all").code in (0, 1)
    assert world.status() is Status.SUCCESS
    store = world.store()
    try:
        assert len(store.grants.listed(ended=True)) == len(store.requests(ExecutionId(1))) == 1
        first, second = (store.call(ExecutionId(1), Position(turn, 0)) for turn in (0, 1))
    finally:
        store.close()
    assert first is not None
    assert second is not None
    assert (first.decision, second.decision, second.grant_id) == (Decision.ASK, Decision.RUN, 1)
    unknown = sum(call.outcome is CallOutcome.UNKNOWN for call in (first, second))
    assert 2 - unknown <= world.effects()["A"] <= 2


def check_kills(folder: Path, flags: tuple[str, ...], stride: int) -> None:
    counted = asking(folder / "counted")
    assert counted.cli(*ALWAYS, *flags).code == 0
    writes = counted.cli.writes_of_last()
    given = set()
    for write in range(1 + (random.randrange(stride) if stride > 1 else 0), writes + 1, stride):
        world = asking(folder / f"{write}")
        assert world.cli(*ALWAYS, *flags, kill_before_write=write).killed
        given.add(check_given(world))
        assert world.cli(*ALWAYS).code == 0  # the same answer, whether it was stored or not
        assert check_given(world)
        check_end(world)
    assert stride > 1 or given == ({False} if flags else {False, True})


def test_killed_at_a_write_of_the_answer(tmp_path: Path) -> None:
    check_kills(tmp_path, ("--no-wait",), 3)


def test_killed_at_a_write_of_the_drive(tmp_path: Path) -> None:
    check_kills(tmp_path, (), 20)


@pytest.mark.stress
@pytest.mark.parametrize("flags", [("--no-wait",), ()], ids=["answer", "drive"])
def test_killed_at_every_write(tmp_path: Path, flags: tuple[str, ...]) -> None:
    check_kills(tmp_path, flags, 1)

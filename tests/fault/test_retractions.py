"""A retraction against the start of the call, in real processes, and kill -9 at the writes of both: exactly one wins."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import BETWEEN, Position
from agent_md.executions.requests import Request
from agent_md.executions.states import CallOutcome, Outcome, Status
from tests.support.waiting import until
from tests.support.world import World

ONE_CALL = """
conversations:
  - turns:
      - {calls: [{name: danger, args: {key: A}}]}
      - {text: End.}
"""
FIRST, AGAIN = "1-0.0", "1-0.0-again1"


def answered(folder: Path, flag: str) -> World:
    """An execution whose one request is answered, and which nobody drives."""
    world = World(folder)
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(ONE_CALL)
    assert world.cli("run", "worker").code == 3
    assert world.cli("respond", "1", flag, "--no-wait").code == 0
    return world


def requests(world: World) -> dict[str, Request]:
    store = world.store()
    try:
        return {request.id: request for request in store.requests(ExecutionId(1))}
    finally:
        store.close()


def check_one_won(world: World, code: int, flag: str) -> None:
    """What the retraction said, what is asked and what ran say the same; the next answer, the opposite, ends it."""
    asked = requests(world)
    if code == 0:
        assert list(asked) == [FIRST, AGAIN]
        assert asked[FIRST].retraction is not None
        assert asked[AGAIN].open
        assert world.effects() == {}
        other = "--no" if flag == "--yes" else "--yes"
        assert world.cli("respond", "1", "--request", AGAIN, other).code == 0
        approved = other == "--yes"
    else:
        assert code == 6
        assert list(asked) == [FIRST]
        assert asked[FIRST].retraction is None
        approved = flag == "--yes"
    while (status := world.status()) is not None and not status.final:
        assert world.cli("resume", "--all").code in (0, 1)
    assert world.status() is Status.SUCCESS
    store = world.store()
    call = store.call(ExecutionId(1), Position(0, 0))
    events = [event.key for event in store.events(ExecutionId(1))]
    store.close()
    assert call is not None
    assert events.count(f"retraction:{FIRST}") == events.count(f"request:{AGAIN}") == (1 if code == 0 else 0)
    if call.outcome is CallOutcome.UNKNOWN:  # its process was killed in the middle of it
        assert approved
        assert world.effects()["A"] <= 1
    else:
        assert call.outcome is (CallOutcome.DONE if approved else CallOutcome.DENIED)
        assert world.effects() == ({"A": 1} if approved else {})
    last = requests(world)[AGAIN if code == 0 else FIRST].answer
    assert last is not None
    assert last.outcome is (Outcome.APPROVED if approved else Outcome.DENIED)


class TestRace:
    """The retraction is let go when the drive has begun, and a moment later, another one in each round."""

    def check(self, folder: Path, rounds: int) -> None:
        for number in range(rounds):
            flag = "--yes" if number % 2 else "--no"
            world = answered(folder / f"{number}", flag)
            moment = random.uniform(0, 0.1)

            def begun(world: World = world, moment: float = moment) -> None:
                until(lambda: world.is_in_flight(BETWEEN, epoch=2) or world.status() is Status.SUCCESS)
                end = time.monotonic() + moment
                while time.monotonic() < end:
                    pass

            retracting = world.cli.start("respond", "1", "--retract", "--request", FIRST, prepare=begun)
            driving = world.cli.start("resume", "1")
            drove, retracted = driving.wait(), retracting.wait()
            assert drove.code == (0 if retracted.code == 6 else 3), (drove, retracted)
            check_one_won(world, retracted.code, flag)

    def test_two_rounds(self, tmp_path: Path) -> None:
        self.check(tmp_path, 2)

    @pytest.mark.stress
    def test_twenty_rounds(self, tmp_path: Path) -> None:
        self.check(tmp_path, 20)

    def test_twenty_retractions_at_once(self, tmp_path: Path) -> None:
        world = answered(tmp_path, "--yes")
        running = [world.cli.start("respond", "1", "--retract", "--json") for _ in range(20)]
        ended = [process.wait() for process in running]
        assert {each.code for each in ended} == {0}
        assert len({each.out for each in ended}) == 1
        assert json.loads(ended[0].out)["replaced_by"] == AGAIN
        check_one_won(world, 0, "--yes")


def points(writes: int, stride: int) -> Iterator[int]:
    return iter(range(1 + (random.randrange(stride) if stride > 1 else 0), writes + 1, stride))


def check_kills_of_the_retraction(folder: Path, stride: int) -> None:
    counted = answered(folder / "counted", "--yes")
    assert counted.cli("respond", "1", "--retract").code == 0
    for write in points(counted.cli.writes_of_last(), stride):
        world = answered(folder / f"{write}", "--yes")
        assert world.cli("respond", "1", "--retract", kill_before_write=write).killed
        killed = requests(world)
        assert (killed[FIRST].retraction is not None) == (AGAIN in killed)
        again = world.cli("respond", "1", "--retract")
        assert again.code == 0, again
        check_one_won(world, 0, "--yes")


def check_kills_of_the_drive(folder: Path, flag: str, stride: int) -> None:
    counted = answered(folder / f"counted{flag}", flag)
    assert counted.cli("resume", "1").code == 0
    codes = set()
    for write in points(counted.cli.writes_of_last(), stride):
        world = answered(folder / f"{write}{flag}", flag)
        assert world.cli("resume", "1", kill_before_write=write).killed
        retracted = world.cli("respond", "1", "--retract", "--request", FIRST)
        codes.add(retracted.code)
        check_one_won(world, retracted.code, flag)
    assert stride > 1 or codes == {0, 6}


def test_killed_at_a_write_of_the_retraction(tmp_path: Path) -> None:
    check_kills_of_the_retraction(tmp_path, 6)


@pytest.mark.stress
def test_killed_at_every_write_of_the_retraction(tmp_path: Path) -> None:
    check_kills_of_the_retraction(tmp_path, 1)


@pytest.mark.parametrize("flag", ["--yes", "--no"])
def test_retracted_after_a_drive_was_killed(tmp_path: Path, flag: str) -> None:
    check_kills_of_the_drive(tmp_path, flag, 20)


@pytest.mark.stress
@pytest.mark.parametrize("flag", ["--yes", "--no"])
def test_retracted_after_a_drive_was_killed_at_every_write(tmp_path: Path, flag: str) -> None:
    check_kills_of_the_drive(tmp_path, flag, 1)

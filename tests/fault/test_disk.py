"""A disk that is full from any chosen write on, and a state folder that cannot be written."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, CallState, Status
from tests.support.disk import as_ordinary_user, full_disk
from tests.support.processes import Finished
from tests.support.world import MAY_HAVE_RUN, Story, World

EVERY_FILE = ""
STORE = "/agentmd.db"
CHECKPOINTS = "/agentmd_checkpoints.db"

Prepare = Callable[[], None]

READING = (["list"], ["logs"], ["logs", "-e", "1"], ["pending"])
CHANGING = (["run", "worker"], ["resume", "1"], ["respond", "1", "--all", "--yes"])


def state(world: World) -> Path:
    return world.workspace / ".agentmd"


def waiting(world: World) -> World:
    """Its execution waits for three answers; no process is left."""
    return world.begin()


def crashed(world: World) -> World:
    """Its driver was killed in an unguarded call that has had its effect."""
    assert world.cli("run", "worker", env={"KILL_IN_TOOL": "U:after"}).killed
    return world


def answer_all(world: World) -> None:
    world.finish()
    world.check()


class TestFullFromOneWriteOn:
    def test_some_writes(self, story: Story) -> None:
        assert len(story.points) > 60
        for place in random.sample(story.points, 6):
            check_full_at(story, place, random.choice([EVERY_FILE, STORE, CHECKPOINTS]))

    @pytest.mark.stress
    @pytest.mark.parametrize("only", [EVERY_FILE, STORE, CHECKPOINTS], ids=["all", "store", "checkpoints"])
    def test_every_write(self, story: Story, only: str) -> None:
        for place in story.points:
            check_full_at(story, place, only)


def check_full_at(story: Story, place: tuple[int, int], only: str) -> None:
    process, write = place
    world = story.before(process)
    try:
        check_told(world, world.step(prepare=full_disk(write, only=only)))
        answer_all(world)
    except AssertionError as error:
        raise AssertionError(f"full from write {write} of process {process} on, files {only!r}: {error}") from error


def check_told(world: World, ended: Finished) -> None:
    """Nothing is told as done that is not."""
    assert "Traceback" not in ended.err, ended
    if ended.code not in (0, 3):
        assert ended.code == 1, ended
        assert "the disk is full" in ended.err, ended
    store = world.store()
    try:
        if "Recorded." in ended.out:
            assert any(not request.open for request in store.requests(ExecutionId(1))), ended
        if "All done." in ended.out:
            assert store.execution(ExecutionId(1)).status is Status.SUCCESS, ended
    finally:
        store.close()
    told = {line.partition("← did ")[2] for line in ended.out.splitlines() if "← did " in line}
    assert told <= set(world.effects()), ended


class TestFullAtOneMoment:
    def test_a_start_that_cannot_be_stored_has_no_effect(self, world: World) -> None:
        failed = world.cli("run", "worker", prepare=full_disk("UPDATE calls SET edited_args"))
        check_told(world, failed)
        assert failed.code == 1
        assert world.effects() == {}
        answer_all(world)
        assert world.effects()["U"] == 1

    def test_a_result_that_cannot_be_stored_is_not_told_and_may_have_run(self, world: World) -> None:
        failed = world.cli("run", "worker", prepare=full_disk("UPDATE calls SET outcome"))
        check_told(world, failed)
        assert failed.code == 1
        assert "did U" not in failed.out
        assert world.effects() == {"U": 1}
        assert self._call(world, Position(0, 2)) is CallState.STARTED
        answer_all(world)
        assert world.effects()["U"] == 1
        store = world.store()
        call = store.call(ExecutionId(1), Position(0, 2))
        store.close()
        assert call is not None
        assert call.outcome is CallOutcome.UNKNOWN
        assert MAY_HAVE_RUN in (call.result or "")

    @staticmethod
    def _call(world: World, position: Position) -> CallState:
        store = world.store()
        call = store.call(ExecutionId(1), position)
        store.close()
        assert call is not None
        return call.state

    def test_an_answer_that_cannot_be_stored_is_not_recorded(self, world: World) -> None:
        waiting(world)
        request = world.open_requests()[0]
        failed = world.respond(request, prepare=full_disk("INSERT INTO answers"))
        assert failed.code == 1
        assert "Recorded." not in failed.out
        assert "disk is full" in failed.err
        assert request in world.open_requests()
        assert world.effects() == {"U": 1}
        answer_all(world)

    def test_an_end_that_cannot_be_stored_is_not_told(self, world: World) -> None:
        failed = waiting(world).respond(world.open_requests()[0])
        while world.status() is Status.WAITING:
            failed = world.respond(world.open_requests()[0], prepare=full_disk("UPDATE executions SET finished_at"))
        check_told(world, failed)
        assert failed.code == 1
        assert "✅" not in failed.out
        answer_all(world)

    def test_a_worker_that_cannot_say_goodbye_has_ended_all_the_same(self, world: World) -> None:
        ended = world.cli("run", "worker", prepare=full_disk("DELETE FROM workers"))
        assert ended.code == 3, ended
        answer_all(world)


class TestFullCheckpoints:
    def test_it_says_so_and_goes_on_when_there_is_room(self, world: World) -> None:
        waiting(world)
        request = world.open_requests()[0]
        failed = world.respond(request, prepare=full_disk(only=CHECKPOINTS))
        assert failed.code == 1
        assert "agentmd_checkpoints.db" in failed.err
        assert "the disk is full" in failed.err
        assert request not in world.open_requests()
        answer_all(world)

    @pytest.mark.parametrize("since", [1, 2])
    def test_trying_in_vain_costs_no_attempt(self, world: World, since: int) -> None:
        waiting(world)
        failed = world.respond(world.open_requests()[0], prepare=full_disk(since, only=CHECKPOINTS))
        for _ in range(5):
            assert failed.code == 1, failed
            assert "the disk is full" in failed.err, failed
            failed = world.cli("resume", "--all", prepare=full_disk(since, only=CHECKPOINTS))
        answer_all(world)


class TestEveryCommand:
    """Reading goes on, with all there is to see; everything else fails clearly and changes nothing."""

    @pytest.mark.parametrize("before", [waiting, crashed])
    def test_on_a_full_disk(self, world: World, before: Callable[[World], World]) -> None:
        seen = look(before(world), full_disk(), refusal="the disk is full")
        check_seen(world, seen)

    @pytest.mark.parametrize("before", [waiting, crashed])
    def test_in_a_folder_that_cannot_be_written(self, world: World, before: Callable[[World], World]) -> None:
        before(world)
        with unwritable(state(world)):
            seen = look(world, as_ordinary_user, refusal="who owns the state folder and its mode")
        check_seen(world, seen)

    def test_files_that_cannot_be_written(self, world: World) -> None:
        waiting(world)
        with unwritable(state(world) / "agentmd.db"):
            seen = look(world, as_ordinary_user, refusal="who owns the state folder and its mode")
            assert list(state(world).glob("agentmd.db-*")) == []  # they would have its mode, and keep it
        check_seen(world, seen)

    def test_on_a_full_disk_with_nothing_stored(self, world: World) -> None:
        assert world.cli("run", "worker", prepare=full_disk()).code == 1
        for command in (["list"], ["logs"], ["pending"]):
            assert world.cli(*command, prepare=full_disk()).code == 0
        answer_all(world)

    def test_what_a_crash_left_is_shown_or_refused_never_left_out(self, world: World) -> None:
        crashed(world)
        (state(world) / "agentmd.db-shm").unlink()  # as in a copy of the database and its log
        with unwritable(state(world)):
            looked = world.cli("logs", prepare=as_ordinary_user)
        assert looked.code == 1, looked
        assert "agentmd.db cannot be opened" in looked.err
        answer_all(world)

    def test_a_state_folder_that_cannot_be_made(self, world: World) -> None:
        assert world.cli("list").code == 0  # makes the folder that its output goes to
        with unwritable(world.workspace, deep=False):
            refused = world.cli("run", "worker", prepare=as_ordinary_user)
            assert world.cli("logs", prepare=as_ordinary_user).code == 0
        assert refused.code == 1, refused
        assert "cannot be made" in refused.err
        answer_all(world)


def look(world: World, prepare: Prepare, *, refusal: str) -> list[Finished]:
    """What the commands that read give; the others give one line with `refusal`."""
    for command in CHANGING:
        refused = world.cli(*command, prepare=prepare)
        assert refused.code == 1, (command, refused)
        assert refusal in refused.err, (command, refused)
        assert len(refused.err.splitlines()) == 1, (command, refused)
        assert refused.out == "", (command, refused)
    return [world.cli(*command, prepare=prepare) for command in READING]


def without_now(seen: Finished) -> Finished:
    """Without what depends on the time at which somebody looks: it stands in the line that tells how things stand."""
    return replace(seen, out=re.sub(r"^[\d:]{8}( \w+ ■ \w+).*$", r"\1", seen.out, flags=re.MULTILINE))


def check_seen(world: World, seen: list[Finished]) -> None:
    """It was what is seen when all is well; and the execution goes on from there."""
    assert world.effects() == {"U": 1}
    assert list(map(without_now, seen)) == [without_now(world.cli(*command)) for command in READING]
    assert all(looked.code == 0 for looked in seen)
    answer_all(world)


@contextmanager
def unwritable(folder: Path, *, deep: bool = True) -> Iterator[None]:
    """The folder, and with `deep` what is in it, only to be read for as long as this lasts."""
    places = [folder, *(folder.rglob("*") if deep else ())]
    modes = {path: path.stat().st_mode for path in places}
    for path, mode in modes.items():
        path.chmod(mode & 0o500)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)

"""What dead workers leave behind is removed by the next one, and a living one is never taken for dead meanwhile."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.errors import StateDirUnusable
from agent_md.executions.ids import WorkerId
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers, WorkerHandle
from agent_md.system import SYSTEM
from tests.support.disk import as_ordinary_user
from tests.support.forks import in_processes
from tests.support.processes import preload
from tests.support.world import World


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "workers"


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def die_as_worker(folder: Path) -> None:
    def die() -> None:
        LockWorkers(folder).acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_processes(die) == [-signal.SIGKILL]


class TestLockFiles:
    def test_those_of_dead_workers_go_when_they_are_forgotten(self, folder: Path) -> None:
        for _ in range(3):
            die_as_worker(folder)
        workers = LockWorkers(folder)
        handle = workers.acquire()
        dead = workers.dead()
        assert names(folder) == {f"{handle.id}.lock", *(f"{worker}.lock" for worker in dead)}
        assert len(dead) == 3
        for worker in dead:
            workers.forget(worker)
        assert names(folder) == {f"{handle.id}.lock"}
        handle.close()
        assert names(folder) == set()

    def test_those_of_living_ones_stay(self, folder: Path) -> None:
        living = LockWorkers(folder).acquire()
        die_as_worker(folder)
        other = LockWorkers(folder).acquire()
        assert f"{living.id}.lock" in names(folder)
        assert not {living.id, other.id} & set(LockWorkers(folder).dead())
        assert LockWorkers(folder).alive(living.id)
        living.close()
        other.close()

    def test_other_files_stay(self, folder: Path) -> None:
        folder.mkdir()
        for name in ("notes.txt", "half.new"):
            (folder / name).touch()
        (folder / "place.lock").mkdir()
        LockWorkers(folder).acquire().close()
        assert names(folder) == {"notes.txt", "half.new", "place.lock"}

    def test_one_that_cannot_be_opened_tells_nothing(self, folder: Path, tmp_path: Path) -> None:
        handle = LockWorkers(folder).acquire()
        path = folder / f"{handle.id}.lock"

        def ask() -> None:
            as_ordinary_user()
            with pytest.raises(StateDirUnusable, match="not known whether its worker lives"):
                LockWorkers(folder).alive(handle.id)
            other = LockWorkers(folder).acquire()
            store = SqliteStore(tmp_path / "agentmd.db", workers=LockWorkers(folder))
            store.register_worker(other.id, 2)
            store.close()

        store = SqliteStore(tmp_path / "agentmd.db", workers=LockWorkers(folder))
        store.register_worker(handle.id, 1)
        store.close()
        path.chmod(0)
        assert in_processes(ask) == [0]
        path.chmod(0o600)
        assert LockWorkers(folder).alive(handle.id)
        assert handle.id in rows(tmp_path / "agentmd.db")
        handle.close()

    def test_no_living_one_is_taken_for_dead_while_others_come_and_go(self, folder: Path) -> None:
        living = LockWorkers(folder).acquire()

        def come_and_go() -> None:
            workers = LockWorkers(folder)
            for _ in range(150):
                handle = workers.acquire()
                assert workers.alive(handle.id)
                assert workers.alive(living.id)
                handle.close()
                assert not workers.alive(handle.id)

        def come_and_die() -> None:
            come_and_go()
            LockWorkers(folder).acquire()  # the process ends without closing it

        assert in_processes(*[come_and_go] * 2, *[come_and_die] * 2) == [0] * 4
        assert LockWorkers(folder).alive(living.id)
        assert living.id not in LockWorkers(folder).dead()
        living.close()


class TestWhatADeadOneLeaves:
    def died(self, folder: Path, before: Callable[[WorkerHandle], object], boot: str = "this boot") -> WorkerId:
        """A worker whose process was killed after it did this."""

        def die() -> None:
            before(LockWorkers(folder, lambda: boot).acquire())
            os.kill(os.getpid(), signal.SIGKILL)

        assert in_processes(die) == [-signal.SIGKILL]
        (dead,) = LockWorkers(folder).dead()
        return dead

    def by_order(self, folder: Path, dead: WorkerId, boot: str = "this boot") -> bool:
        return LockWorkers(folder, lambda: boot).ended_by_order(dead)

    def test_a_kill_is_no_order(self, folder: Path) -> None:
        dead = self.died(folder, lambda handle: handle.worked())
        assert not self.by_order(folder, dead)

    def test_one_that_was_told_to_stop(self, folder: Path) -> None:
        dead = self.died(folder, lambda handle: handle.note_stop_request())
        assert self.by_order(folder, dead)

    def test_one_of_an_earlier_boot_of_the_machine(self, folder: Path) -> None:
        dead = self.died(folder, lambda handle: handle.worked())
        assert self.by_order(folder, dead, boot="the next boot")

    @pytest.mark.parametrize("content", ["", "\0" * 40, "nonsense"])
    def test_one_whose_file_was_lost_with_the_machine(self, folder: Path, content: str) -> None:
        dead = self.died(folder, lambda handle: handle.worked())
        (folder / f"{dead}.lock").write_text(content)
        assert self.by_order(folder, dead)
        assert LockWorkers(folder).worked(dead) == 0

    def test_how_long_it_worked_is_kept_while_it_works(self, folder: Path) -> None:
        seen = folder.parent / "seen"

        def work(handle: WorkerHandle) -> None:
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                handle.worked()
            seen.write_text(str(handle.worked()))

        dead = self.died(folder, work)
        assert int(seen.read_text()) - 60 <= LockWorkers(folder).worked(dead) <= int(seen.read_text())

    def test_this_machine_names_its_boot(self) -> None:
        assert SYSTEM.boot_id()
        assert SYSTEM.boot_id() == SYSTEM.boot_id()


class TestRows:
    def test_those_of_dead_workers_go_with_the_next_worker(self, tmp_path: Path, folder: Path) -> None:
        workers = LockWorkers(folder)
        store = SqliteStore(tmp_path / "agentmd.db", workers=workers)
        living, other = workers.acquire(), workers.acquire()
        store.register_worker(living.id, 1)
        store.register_worker(WorkerId("dead"), 2)
        store.register_worker(other.id, 3)
        assert rows(tmp_path / "agentmd.db") == {living.id, other.id}
        store.forget_worker(other.id)
        assert rows(tmp_path / "agentmd.db") == {living.id}
        store.close()
        living.close()
        other.close()

    def test_nothing_is_left_of_killed_processes(self, tmp_path: Path) -> None:
        preload()
        world = World(tmp_path / "ws")
        assert world.cli("run", "worker", env={"KILL_IN_TOOL": "U:before"}).killed
        assert len(names(world.workspace / ".agentmd/workers")) == 1
        assert len(rows(world.workspace / ".agentmd/agentmd.db")) == 1
        world.cli("resume", "--all")
        assert names(world.workspace / ".agentmd/workers") == set()
        assert rows(world.workspace / ".agentmd/agentmd.db") == set()


def rows(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM workers")}

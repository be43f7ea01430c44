"""Workers by file locks, with real processes that run, stop, fork and are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent_md.errors import StateDirUnusable
from agent_md.executions.ids import WorkerId
from agent_md.stores.workers import LockWorkers

ROOT = Path(__file__).parents[2]


@dataclass
class Holder:
    """A running `tests.support.holder`."""

    process: subprocess.Popen[str]
    id: WorkerId
    child: int

    def tell(self, command: str) -> str:
        """Has it do a command; what it says when it is done."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        """SIGKILL; comes back when the process is gone."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """Closes its standard input; comes back when the process has ended."""
        end(self.process)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "workers"


@pytest.fixture
def workers(directory: Path) -> LockWorkers:
    return LockWorkers(directory)


@pytest.fixture
def hold(directory: Path) -> Iterator[Callable[..., Holder]]:
    """Starts a process that is a worker, with a child if asked for; all are gone after the test."""
    started: list[subprocess.Popen[str]] = []
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)

    def start(what: str = "alone") -> Holder:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.holder", str(directory), f"{what}:{read_end}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[read_end],
            cwd=ROOT,
        )
        started.append(process)
        assert process.stdout is not None
        worker, child = process.stdout.readline().split()
        return Holder(process, WorkerId(worker), int(child))

    yield start
    os.close(write_end)
    os.close(read_end)
    for process in started:
        process.send_signal(signal.SIGCONT)
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    with suppress(BrokenPipeError, ValueError):  # ended before
        process.communicate()


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class TestOwnProcess:
    def test_alive_from_acquire_to_close(self, workers: LockWorkers) -> None:
        handle = workers.acquire()
        assert workers.alive(handle.id)
        handle.close()
        assert not workers.alive(handle.id)

    def test_every_acquire_is_another_worker(self, workers: LockWorkers) -> None:
        one, other = workers.acquire(), workers.acquire()
        assert one.id != other.id
        one.close()
        assert not workers.alive(one.id)
        assert workers.alive(other.id)
        other.close()

    def test_closing_twice_harms_nobody(self, workers: LockWorkers) -> None:
        one = workers.acquire()
        one.close()
        other = workers.acquire()
        one.close()
        assert workers.alive(other.id)
        other.close()

    def test_unknown_ids_are_dead(self, workers: LockWorkers, directory: Path) -> None:
        assert not workers.alive(WorkerId("nobody"))
        assert not directory.exists()
        workers.acquire().close()
        before = sorted(directory.iterdir())
        assert not workers.alive(WorkerId("nobody"))
        assert sorted(directory.iterdir()) == before

    def test_its_file_is_for_its_owner_only(self, workers: LockWorkers, directory: Path) -> None:
        umask = os.umask(0)
        try:
            handle = workers.acquire()
        finally:
            os.umask(umask)
        assert (directory / f"{handle.id}.lock").stat().st_mode & 0o777 == 0o600
        handle.close()

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StateDirUnusable):
            LockWorkers(tmp_path / "file").acquire()

    def test_probing_never_disturbs(self, workers: LockWorkers, directory: Path) -> None:
        workers.acquire().close()
        done = threading.Event()

        def probe_all() -> None:
            others = LockWorkers(directory)
            while not done.is_set():
                for path in directory.glob("*.lock"):
                    others.alive(WorkerId(path.stem))

        probers = [threading.Thread(target=probe_all) for _ in range(2)]
        for prober in probers:
            prober.start()
        try:
            for _ in range(100):
                handle = workers.acquire()
                assert all(workers.alive(handle.id) for _ in range(5))
                handle.close()
        finally:
            done.set()
            for prober in probers:
                prober.join()


class TestProcesses:
    def test_alive_while_it_runs(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        holder = hold()
        assert all(workers.alive(holder.id) for _ in range(10))

    def test_alive_while_it_is_stopped(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        holder = hold()
        holder.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, holder.process.pid, os.WSTOPPED | os.WNOWAIT)
        assert workers.alive(holder.id)
        holder.process.send_signal(signal.SIGCONT)
        assert holder.tell("probe") == "ok"
        assert workers.alive(holder.id)

    def test_dead_right_after_a_kill(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        holder = hold()
        holder.kill()
        assert not workers.alive(holder.id)

    def test_dead_also_when_killed_while_it_was_stopped(
        self, workers: LockWorkers, hold: Callable[..., Holder]
    ) -> None:
        holder = hold()
        holder.process.send_signal(signal.SIGSTOP)
        holder.kill()
        assert not workers.alive(holder.id)

    def test_dead_before_its_parent_looks_after_it(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        holder = hold()
        holder.process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, holder.process.pid, os.WEXITED | os.WNOWAIT)
        assert exists(holder.process.pid)  # a zombie
        assert not workers.alive(holder.id)

    def test_dead_after_close_while_its_process_runs(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        holder = hold()
        assert holder.tell("close") == "ok"
        assert not workers.alive(holder.id)
        assert holder.process.poll() is None

    def test_dead_after_its_end(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        holder = hold()
        holder.end()
        assert holder.process.returncode == 0
        assert not workers.alive(holder.id)

    def test_probing_itself_it_stays_alive(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        holder = hold()
        assert holder.tell("probe") == "ok"
        assert holder.tell("probe") == "ok"
        assert workers.alive(holder.id)

    @pytest.mark.parametrize("what", ["fork", "exec"])
    def test_a_child_does_not_keep_it_alive(self, workers: LockWorkers, hold: Callable[..., Holder], what: str) -> None:
        holder = hold(what)
        assert workers.alive(holder.id)
        holder.kill()
        assert exists(holder.child)
        assert not workers.alive(holder.id)

    @pytest.mark.parametrize("what", ["fork", "exec"])
    def test_a_child_does_not_end_it(self, workers: LockWorkers, hold: Callable[..., Holder], what: str) -> None:
        holder = hold(what)
        assert exists(holder.child)
        assert holder.tell("probe") == "ok"
        assert workers.alive(holder.id)

    def test_one_death_is_one_death(self, workers: LockWorkers, hold: Callable[..., Holder]) -> None:
        one, other = hold(), hold()
        one.kill()
        assert not workers.alive(one.id)
        assert workers.alive(other.id)

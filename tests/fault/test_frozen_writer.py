"""A process that is stopped inside a write transaction: whoever comes says who it is, after one wait, and ends."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import StoreBusy
from agent_md.stores.checkpoints import Checkpoints
from agent_md.stores.sqlite.database import Database
from agent_md.system.linux import Linux
from tests.support.world import World

pytestmark = pytest.mark.stress  # slow, and about what seldom changes

WAIT_S = 0.5


def impatient(seconds: float = WAIT_S) -> Callable[[], None]:
    """For `prepare`: SQLite waits so long for another writer."""

    def prepare() -> None:
        connect = sqlite3.connect

        def connect_there(*args: Any, **options: Any) -> sqlite3.Connection:
            return connect(*args, **{**options, "timeout": seconds})

        sqlite3.connect = connect_there  # type: ignore[assignment]

    return prepare


@contextmanager
def frozen_writer(path: Path) -> Iterator[int]:
    """A stopped process in the middle of a write to this database."""
    pid = os.fork()
    if pid == 0:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("command", [["run", "worker"], ["respond", "1", "--all", "--yes"], ["cancel", "1"]])
def test_a_command_names_it_after_one_wait_and_ends_with_1(world: World, command: list[str]) -> None:
    world.begin()
    with frozen_writer(world.workspace / ".agentmd/agentmd.db") as pid:
        began = time.monotonic()
        ended = world.cli(*command, prepare=impatient())
        took = time.monotonic() - began
    assert ended.code == 1, ended
    assert len(ended.err.splitlines()) == 1, ended
    assert re.search(rf"agentmd\.db is being written by process {pid} \(stopped, .+\), which does not come", ended.err)
    assert f"kill -CONT {pid}" in ended.err
    assert took < 10
    world.finish()
    world.check()


def test_also_where_it_holds_the_checkpoints_and_no_attempt_is_counted(world: World) -> None:
    world.begin()
    with frozen_writer(world.checkpoints) as pid:
        ended = world.respond(world.open_requests()[0], prepare=impatient())
        assert ended.code == 1, ended
        assert f"agentmd_checkpoints.db is being written by process {pid} (stopped" in ended.err
        for _ in range(5):
            assert world.cli("resume", "--all", prepare=impatient()).code == 1
    world.finish()
    world.check()


@pytest.mark.parametrize("command", [["pending"], ["logs"], ["list"], ["logs", "-e", "1"]])
def test_reading_goes_on(world: World, command: list[str]) -> None:
    world.begin()
    with frozen_writer(world.workspace / ".agentmd/agentmd.db"):
        assert world.cli(*command, prepare=impatient()).code == 0


@pytest.mark.parametrize("opened", [Database, Checkpoints])
def test_the_whole_wait_is_only_once_until_it_is_free(tmp_path: Path, opened: Any) -> None:
    path = tmp_path / "x.db"
    database = opened(path)
    write = database.write if opened is Database else database.cursor
    connection = database._connection if opened is Database else database.conn
    connection.execute("PRAGMA busy_timeout=400")
    waits = []
    with frozen_writer(path):
        for _ in range(3):
            began = time.monotonic()
            with pytest.raises(StoreBusy), write():
                pass
            waits.append(time.monotonic() - began)
    assert waits[0] >= 0.4
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (100,)
    with write():
        pass
    assert connection.execute("PRAGMA busy_timeout").fetchone() == (30_000,)
    database.close()


@pytest.mark.parametrize("byte", [None, 120])
def test_where_the_system_says_nothing_nobody_is_named(tmp_path: Path, byte: int | None) -> None:
    (tmp_path / "x").touch()
    assert Linux(tmp_path / "missing").lock_holders(tmp_path / "x", byte=byte) == []
    assert Linux().lock_holders(tmp_path / "missing", byte=byte) == []


def test_a_command_line_is_shown_up_to_its_first_option(tmp_path: Path) -> None:
    """The values of options may be secrets."""
    proc, file = tmp_path / "proc", tmp_path / "file"
    file.touch()
    (proc / "77/fd").mkdir(parents=True)
    (proc / "77/fdinfo").mkdir()
    (proc / "77/fd/5").symlink_to(file)
    (proc / "77/fdinfo/5").write_text("pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 12 fe:00:34 0 EOF\n")
    (proc / "77/cmdline").write_bytes(b"python\0-m\0agent_md.cli.main\0start\0--api-key\0hunter2\0")
    (proc / "77/stat").write_text("77 (pyth) on) S 1 2 3")
    assert [str(found) for found in Linux(proc).lock_holders(file)] == [
        "process 77 (python -m agent_md.cli.main start)"
    ]
    assert Linux(proc).lock_holders(file, byte=120) == []

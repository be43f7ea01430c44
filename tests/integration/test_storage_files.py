"""What may lie where a database is expected, and the modes of what is made."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from agent_md.errors import StoreError, StoreForeign, StoreFull, StoreNewer, StoreReadOnly
from agent_md.stores.checkpoints import Checkpoints
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.migrate import APPLICATION_ID, migrations
from agent_md.stores.sqlite.store import SqliteStore
from tests.support.disk import as_ordinary_user
from tests.support.forks import in_processes
from tests.support.processes import preload
from tests.support.scenes import begin
from tests.support.waiting import until
from tests.support.workers import FakeWorkers
from tests.support.world import World


class Closable(Protocol):
    def close(self) -> None: ...


Open = Callable[[Path], Closable]


def open_store(path: Path) -> SqliteStore:
    return SqliteStore(path, workers=FakeWorkers())


def read_store(path: Path) -> SqliteStore:
    return SqliteStore.for_reading(path, workers=FakeWorkers())


every_opening = pytest.mark.parametrize(
    "opening", [open_store, read_store, Checkpoints], ids=["write", "read", "saver"]
)
opening_the_store = pytest.mark.parametrize("opening", [open_store, read_store], ids=["write", "read"])


def made_by(opening: Open, path: Path) -> bytes:
    """The bytes of a file that is closed again."""
    if opening is Checkpoints:
        Checkpoints(path).close()
    else:
        store = open_store(path)
        begin(store)
        store.close()
    return path.read_bytes()


def sql(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@contextmanager
def untouched(path: Path) -> Iterator[None]:
    """The file has the same bytes, the same mode and the same place after this."""
    before = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode, path.stat().st_ino)
    yield
    assert (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode, path.stat().st_ino) == before


@every_opening
class TestOfAnotherProgram:
    def test_a_database_of_another_program(self, tmp_path: Path, opening: Open) -> None:
        path = tmp_path / "db"
        sql(path, "CREATE TABLE books (title TEXT)", "INSERT INTO books VALUES ('Emma')")
        with untouched(path), pytest.raises(StoreForeign, match="left untouched"):
            opening(path)

    def test_one_that_has_its_log_beside_it(self, tmp_path: Path, opening: Open) -> None:
        path, log = tmp_path / "db", tmp_path / "db-wal"

        def program_that_dies() -> None:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE books (title TEXT)")
            os._exit(0)

        assert in_processes(program_that_dies) == [0]
        assert log.stat().st_size
        with untouched(path), untouched(log), pytest.raises(StoreForeign, match="left untouched"):
            opening(path)

    def test_one_that_died_in_the_middle_of_a_write(self, tmp_path: Path, opening: Open) -> None:
        path, journal = tmp_path / "db", tmp_path / "db-journal"
        sql(path, "CREATE TABLE books (title TEXT)")

        def program_that_dies() -> None:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("PRAGMA cache_size=1")
            connection.execute("BEGIN")
            connection.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
                " INSERT INTO books SELECT 'Emma' FROM n"
            )
            os._exit(0)

        assert in_processes(program_that_dies) == [0]
        assert journal.stat().st_size
        with untouched(path), untouched(journal), pytest.raises(StoreForeign, match="left untouched"):
            opening(path)

    def test_an_empty_file_becomes_ours(self, tmp_path: Path, opening: Open) -> None:
        """A process that dies right after making its file leaves one."""
        path = tmp_path / "db"
        path.touch()
        opening(path).close()
        assert path.stat().st_size
        opening(path).close()


@opening_the_store
class TestNotOurs:
    @pytest.mark.parametrize("content", [b"Dear diary", b"\x00" * 5000, b"SQLite format 3\x00" + b"\xff" * 3000])
    def test_no_database(self, tmp_path: Path, opening: Open, content: bytes) -> None:
        path = tmp_path / "db"
        path.write_bytes(content)
        with untouched(path), pytest.raises(StoreForeign, match="left untouched"):
            opening(path)

    def test_a_folder(self, tmp_path: Path, opening: Open) -> None:
        (tmp_path / "db/inside").mkdir(parents=True)
        with pytest.raises(StoreForeign, match="is a folder"):
            opening(tmp_path / "db")
        assert (tmp_path / "db/inside").is_dir()

    @pytest.mark.parametrize("cut", [slice(100), slice(5000), slice(-4096)], ids=["header", "page", "last page"])
    def test_a_truncated_one(self, tmp_path: Path, opening: Open, cut: slice) -> None:
        path = tmp_path / "db"
        path.write_bytes(made_by(opening, path)[cut])
        with untouched(path), pytest.raises(StoreError, match=r"is damaged|is not a"):
            opening(path)

    def test_a_file_of_somebody_elses(self, tmp_path: Path, opening: Open) -> None:
        path = tmp_path / "db"
        made_by(opening, path)

        def refused() -> None:
            as_ordinary_user()
            with pytest.raises(StoreReadOnly, match="check who owns"):
                opening(path)

        path.chmod(0)
        assert in_processes(refused) == [0]
        path.chmod(0o600)
        opening(path).close()


@opening_the_store
class TestNewer:
    def test_a_newer_format(self, tmp_path: Path, opening: Open) -> None:
        path = tmp_path / "db"
        made_by(opening, path)
        newer = len(migrations()) + 1
        sql(path, f"PRAGMA user_version={newer}")
        with untouched(path), pytest.raises(StoreNewer, match=f"format {newer}.*Upgrade agentmd"):
            opening(path)

    def test_a_newer_format_that_is_still_in_the_log(self, tmp_path: Path, opening: Open) -> None:
        path = tmp_path / "db"
        made_by(opening, path)

        def program_that_dies() -> None:
            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute(f"PRAGMA user_version={len(migrations()) + 1}")
            os._exit(0)

        assert in_processes(program_that_dies) == [0]
        with untouched(path), untouched(tmp_path / "db-wal"), pytest.raises(StoreNewer):
            opening(path)


def test_a_process_says_all_this_in_one_line(tmp_path: Path) -> None:
    preload()
    world = World(tmp_path / "ws")
    folder = world.workspace / ".agentmd"
    folder.mkdir()
    (folder / "agentmd.db").write_text("Dear diary")
    ended = world.cli("run", "worker")
    assert ended.code == 1, ended
    assert ended.err.count("\n") == 1, ended
    assert "agentmd.db is not a" in ended.err, ended
    assert (folder / "agentmd.db").read_text() == "Dear diary"
    (folder / "agentmd.db").unlink()
    with closing(sqlite3.connect(folder / "agentmd_checkpoints.db")) as connection:
        connection.execute("CREATE TABLE books (title TEXT)")
    ended = world.cli("run", "worker")
    assert ended.code == 1, ended
    assert ended.err.count("\n") == 1, ended
    assert "agentmd_checkpoints.db is a database of another program" in ended.err, ended
    (folder / "agentmd_checkpoints.db").unlink()
    world.finish()
    world.check()


class TestFull:
    def test_no_room_in_the_file_itself(self, tmp_path: Path) -> None:
        database = Database(tmp_path / "db")
        database.one("PRAGMA max_page_count=1")
        with pytest.raises(StoreFull, match="make room"), database.write():
            database.run("INSERT INTO specs VALUES ('d', hex(randomblob(100000)))")
        assert database.one("SELECT count(*) FROM specs") == (0,)
        database.one("PRAGMA max_page_count=100000")
        with database.write():
            database.run("INSERT INTO specs VALUES ('d', 'body')")
        database.close()
        with closing(sqlite3.connect(tmp_path / "db")) as connection:
            assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
            assert connection.execute("SELECT count(*) FROM specs").fetchone() == (1,)


def test_all_that_is_made_is_for_its_owner_only(tmp_path: Path) -> None:
    preload()
    world = World(tmp_path / "ws")
    (world.workspace / "config.yaml").write_text("log_level: DEBUG\n")
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(
        "conversations:\n  - turns:\n      - {delay: 60s, text: Late.}\n"
    )
    folder = world.workspace / ".agentmd"
    running = world.cli.start("run", "worker", prepare=lambda: os.umask(0))
    until(lambda: (folder / "agentmd_checkpoints.db-wal").exists() and list(folder.glob("workers/*.lock")))
    until(lambda: (folder / "agentmd.log").exists())
    modes = {path.relative_to(folder): stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    running.kill()
    running.wait()
    names = {str(path) for path in modes}
    assert names >= {
        *("agentmd.db", "agentmd.db-wal", "agentmd.db-shm", "agentmd.log", "workers"),
        *("agentmd_checkpoints.db", "agentmd_checkpoints.db-wal", "agentmd_checkpoints.db-shm"),
    }
    assert {mode for path, mode in modes.items() if (folder / path).is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if not (folder / path).is_dir()} == {0o600}, modes

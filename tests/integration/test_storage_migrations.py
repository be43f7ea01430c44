"""The database is brought to a newer format: nothing is lost, whatever is killed and whoever comes at once."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.errors import StoreError, StoreNewer, StoreReadOnly
from agent_md.executions.costs import Cost, CostBy
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.spending import Budget, DayLimit, Scope, Verdict
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.migrate import migrations
from agent_md.stores.sqlite.store import SqliteStore
from tests.support.forks import in_processes
from tests.support.scenes import ask, begin, journal_of, record, succeed
from tests.support.workers import FakeWorkers

NEXT = """
-- a table is made anew, as SQLite wants it for most changes, and the view on it; the trigger has statements of its own
DROP VIEW waits;
DROP VIEW request_states;
CREATE TABLE answers_new (
    request_id TEXT PRIMARY KEY REFERENCES requests (id),
    outcome TEXT NOT NULL,
    value TEXT NOT NULL,
    digest TEXT,
    answered_by TEXT NOT NULL,
    answered_at REAL NOT NULL,
    recorded_at REAL NOT NULL,
    grant_id INTEGER,
    used_at REAL,
    channel TEXT NOT NULL DEFAULT 'cli'
) WITHOUT ROWID;
INSERT INTO answers_new (request_id, outcome, value, digest, answered_by, answered_at, recorded_at, grant_id, used_at)
SELECT * FROM answers;
DROP TABLE answers;
ALTER TABLE answers_new RENAME TO answers;
ALTER TABLE executions ADD COLUMN title TEXT NOT NULL DEFAULT '';
UPDATE executions SET title = agent || ';' || id;
CREATE TRIGGER titles AFTER INSERT ON executions BEGIN
    UPDATE executions SET title = new.agent WHERE id = new.id;
END;
"""
LAST = "CREATE TABLE tags (execution_id INTEGER REFERENCES executions (id), tag TEXT NOT NULL);"

VIEWS = re.findall(r"CREATE VIEW \w+ AS.*?;\n", "".join(migrations()), re.DOTALL)
NEWER = [*migrations(), NEXT + "".join(VIEWS), LAST]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database of the package's format with some rows of every kind."""
    store = SqliteStore(tmp_path / "agentmd.db", workers=FakeWorkers("w1"))
    for _ in range(3):
        journal = journal_of(store, begin(store))
        record(journal)
        ask(journal, turn=1, count=2)
        succeed(journal)
    store.close()
    return tmp_path / "agentmd.db"


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every table, by the names of the columns that the package knows."""
    with closing(Database(None)) as known, closing(sqlite3.connect(path)) as connection:
        tables = [row[0] for row in known.all("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = {table: [row[1] for row in known.all(f"PRAGMA table_info({table})")] for table in tables}
        return {
            table: connection.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY 1, 2").fetchall()
            for table, names in columns.items()
        }


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_every_row_is_kept(path: Path) -> None:
    before = rows_of(path)
    assert all(before[table] for table in ("executions", "events", "calls", "requests", "answers", "specs", "ledger"))
    database = Database(path, scripts=NEWER)
    assert database.all("SELECT title FROM executions ORDER BY id") == [("writer;1",), ("writer;2",), ("writer;3",)]
    assert database.one("SELECT DISTINCT channel FROM answers") == ("cli",)
    assert database.all("PRAGMA foreign_key_check") == []
    assert database.one("PRAGMA foreign_keys") == (1,)
    assert database.one("PRAGMA integrity_check") == ("ok",)
    database.close()
    assert rows_of(path) == before
    assert version_of(path) == len(NEWER)


def test_a_new_file_gets_the_same_schema_as_an_old_one(path: Path, tmp_path: Path) -> None:
    schemas = []
    for place in (path, tmp_path / "new.db"):
        database = Database(place, scripts=NEWER)
        schemas.append(database.all("SELECT type, name, sql FROM sqlite_master ORDER BY type, name"))
        database.close()
    assert schemas[0] == schemas[1]


def test_the_older_program_leaves_it_alone(path: Path) -> None:
    Database(path, scripts=NEWER).close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer):
        SqliteStore(path, workers=FakeWorkers())
    assert path.read_bytes() == before


def test_one_that_fails_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(StoreError):
        Database(path, scripts=[*NEWER, "INSERT INTO nowhere VALUES (1);"])
    assert version_of(path) == len(migrations())
    assert path.read_bytes() == before


def test_one_that_cannot_be_written_is_not_half_understood(path: Path) -> None:
    with pytest.raises(StoreReadOnly, match="older format"):
        Database(path, frozen=True, scripts=NEWER)
    Database(path, frozen=True).close()


class TestKilled:
    def test_before_every_statement(self, path: Path) -> None:
        before, whole = rows_of(path), path.read_bytes()
        deaths = undone = 0
        while True:
            path.write_bytes(whole)
            (code,) = in_processes(self._dying(path, deaths + 1))
            assert rows_of(path) == before
            if code == 0:
                break
            assert code == -signal.SIGKILL
            assert version_of(path) in (len(migrations()), len(NEWER))  # all or nothing
            undone += version_of(path) == len(migrations())
            Database(path, scripts=NEWER).close()
            assert rows_of(path) == before
            deaths += 1
        assert version_of(path) == len(NEWER)
        assert undone > 10

    def _dying(self, path: Path, statement: int) -> Callable[[], None]:
        def migrate() -> None:
            left = statement

            def seen(sql: str) -> None:
                nonlocal left
                left -= not sql.startswith(("PRAGMA journal", "PRAGMA wal", "PRAGMA sync", "--"))
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            connect = sqlite3.connect

            def traced(*args: object, **options: object) -> sqlite3.Connection:
                connection = connect(*args, **options)  # type: ignore[call-overload]
                if "mode=rw" in str(args[0]):
                    connection.set_trace_callback(seen)
                return connection  # type: ignore[no-any-return]

            sqlite3.connect = traced  # type: ignore[assignment]
            Database(path, scripts=NEWER)  # the process ends without closing it

        return migrate


class TestAtOnce:
    @pytest.mark.parametrize("scripts", [migrations(), NEWER], ids=["of the package", "newer"])
    def test_processes_that_make_it(self, tmp_path: Path, scripts: Sequence[str]) -> None:
        path = tmp_path / "agentmd.db"
        assert in_processes(*[self._adding(path, scripts)] * 5) == [0] * 5
        self._check(path, scripts, count=5)

    def test_processes_that_upgrade_it(self, path: Path) -> None:
        assert in_processes(*[self._adding(path, NEWER)] * 5) == [0] * 5
        self._check(path, NEWER, count=6)  # one was there

    def _adding(self, path: Path, scripts: Sequence[str]) -> Callable[[], None]:
        def add() -> None:
            database = Database(path, scripts=scripts)
            with database.write():
                database.run("INSERT INTO specs VALUES (?, '{}')", f"of {os.getpid()}")
            database.close()

        return add

    def _check(self, path: Path, scripts: Sequence[str], *, count: int) -> None:
        assert version_of(path) == len(scripts)
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM specs").fetchone() == (count,)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)  # incremental


def test_what_expired_before_was_decided_at_its_deadline(tmp_path: Path) -> None:
    number = next(n for n, script in enumerate(migrations()) if "recorded_at" in script)
    database = Database(tmp_path / "old.db", scripts=migrations()[:number])
    database.run("INSERT INTO specs (digest, body) VALUES ('d', '{}')")
    database.run(
        "INSERT INTO executions (id, agent, spec_digest, trigger, seed, status, epoch, attempts, created_at)"
        " VALUES (1, 'writer', 'd', 'api', '[]', 'success', 1, 0, 1)"
    )
    for name, deadline, outcome in (("r1", 50.0, "expired"), ("r2", 90.0, "approved"), ("r3", None, "denied")):
        database.run(
            "INSERT INTO requests (id, execution_id, turn, idx, source, kind, message, digest, occurrence, body, created_at,"
            " expires_at) VALUES (?, 1, 0, 0, 'gate', 'confirm', '', '', 0, '{}', 40, ?)",
            *(name, deadline),
        )
        database.run(
            "INSERT INTO answers (request_id, outcome, value, answered_by, answered_at) VALUES (?, ?, 'null', 'x', 70)",
            *(name, outcome),
        )
    database.close()
    store = SqliteStore(tmp_path / "old.db", workers=FakeWorkers())
    answers = [request.answer for request in store.requests(ExecutionId(1))]
    store.close()
    assert [(a.answered_at, a.recorded_at) for a in answers if a] == [(50.0, 70.0), (70.0, 70.0), (70.0, 70.0)]


OF_FORMAT_5 = """
INSERT INTO specs (digest, body) VALUES ('d', '{"model": {"provider": "script", "name": "worker"}}');
INSERT INTO executions (id, agent, spec_digest, trigger, session_id, seed, status, epoch, created_at, finished_at)
VALUES (1, 'writer', 'd', 'chat', 's', '[]', 'success', 1, 100.0, 300.0),
       (2, 'writer', 'd', 'chat', 's', '[]', 'success', 1, 100.0, 200.0),
       (3, 'reader', 'd', 'chat', NULL, '[]', 'running', 1, 100.0, NULL);
INSERT INTO events (execution_id, key, type, message, data, at)
VALUES (1, 'ai:0', 'ai', 'late', '{"message": {"type": "ai", "data": {"content": "one"}}}', 110.0),
       (1, 'complete', 'complete', 'success', '{}', 300.0),
       (2, 'ai:0', 'ai', 'early', '{"message": {"type": "ai", "data": {"content": "two"}}}', 120.0),
       (2, 'complete', 'complete', 'success', '{}', 200.0),
       (3, 'ai:0', 'ai', 'half', '{"message": {"type": "ai", "data": {"content": "three"}}}', 130.0);
INSERT INTO usage VALUES (1, 0, 10, 1, 0.5), (2, 0, 20, 2, NULL), (3, 0, 30, 3, 0.25);
INSERT INTO sessions (agent, session_id, created_at) VALUES ('writer', 's', 100.0);
INSERT INTO reservations (execution_id, agent, worker, amount) VALUES (3, 'reader', 'w', 0.5);
INSERT INTO tombstones (execution_id, agent, model, trigger, status, created_at, finished_at, removed_at, usage, answers)
VALUES (9, 'old', '{"provider": "openai", "name": "gpt"}', 'api', 'success', 10.0, 20.0, 30.0,
        '[[11.0, 5, 6, 1.0], [12.0, 7, 8, null]]', '[]');
"""


def test_what_calls_cost_is_kept_also_of_executions_that_were_removed(tmp_path: Path) -> None:
    path = tmp_path / "agentmd.db"
    Database(path, scripts=migrations()[:5]).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OF_FORMAT_5)
    store = SqliteStore(path, workers=FakeWorkers("w"))
    assert store.costs(CostBy.AGENT) == [
        Cost("old", 2, 12, 14, 1.0, unknown=1),
        Cost("writer", 2, 30, 3, 0.5, unknown=1),
        Cost("reader", 1, 30, 3, 0.25),
    ]
    assert [cost.key for cost in store.costs(CostBy.MODEL)] == ["openai/gpt", "script/worker"]
    assert [store.spent(since, "old") for since in (10, 11.5, 13)] == [None, None, 0]
    assert [store.execution(ExecutionId(number)).usage.cost_usd for number in (1, 2, 3)] == [0.5, None, 0.25]
    budget = Budget((DayLimit(Scope.WORKSPACE, 1.0),), since=125.0, late=0, price=0.5, is_bound=True)
    other = journal_of(store, begin(store, worker=WorkerId("w")))
    assert other.reserve(budget).verdict is Verdict.WAIT  # 0.25 are spent, and 0.5 are held
    said = [message["data"]["content"] for message in store.sessions.messages("writer", "s")]
    assert said == ["one", "two"]  # in the order of their ends as they were stored, whatever the clock said
    store.close()

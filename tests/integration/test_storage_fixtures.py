"""Executions of every released store format go on with this program: each fixture is what that format left on disk."""

from __future__ import annotations

import collections
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.executions.model import CallOutcome, Execution, ExecutionId, Request, RequestKind, Status
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.schema import migrations
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from tests.fixtures.make import DATABASES, FOLDER, restore
from tests.support.processes import Cli, preload

FIXTURES = sorted(FOLDER.glob("store-format-*"))
WAITING, QUEUED, CRASHED = ExecutionId(1), ExecutionId(2), ExecutionId(3)


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    preload()


class Restored:
    """The workspace of a fixture, and its commands."""

    def __init__(self, fixture: Path, workspace: Path) -> None:
        restore(fixture, workspace)
        self.workspace = workspace
        self.cli = Cli(workspace)

    def store(self) -> SqliteStore:
        folder = self.workspace / ".agentmd"
        return SqliteStore(folder / "agentmd.db", workers=LockWorkers(folder / "workers"))

    def execution(self, execution_id: ExecutionId) -> Execution:
        store = self.store()
        try:
            return store.execution(execution_id)
        finally:
            store.close()

    def open_requests(self, execution_id: ExecutionId) -> list[Request]:
        store = self.store()
        try:
            return [request for request in store.requests(execution_id) if request.open]
        finally:
            store.close()

    def effects(self) -> collections.Counter[str]:
        log = self.workspace / "world.log"
        return collections.Counter(log.read_text().split()) if log.exists() else collections.Counter()

    def answer_all(self, execution_id: ExecutionId) -> None:
        while requests := self.open_requests(execution_id):
            flags = ("--yes",) if requests[0].kind is RequestKind.CONFIRM else ("--text", "Ann")
            ended = self.cli("respond", str(execution_id), "--request", requests[0].id, *flags)
            assert ended.code in (0, 3), ended

    def outcomes(self, execution_id: ExecutionId) -> dict[str, tuple[CallOutcome | None, str | None]]:
        store = self.store()
        try:
            return {call.tool: (call.outcome, call.result) for call in store.calls(execution_id)}
        finally:
            store.close()


@pytest.fixture(params=FIXTURES, ids=lambda fixture: fixture.name)
def fixture(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture(params=["with checkpoints", "without checkpoints"])
def restored(request: pytest.FixtureRequest, fixture: Path, tmp_path: Path) -> Restored:
    made = Restored(fixture, tmp_path / "ws")
    if request.param == "without checkpoints":
        (made.workspace / ".agentmd/agentmd_checkpoints.db").unlink()
    return made


def test_every_format_has_its_fixture() -> None:
    assert {folder.name for folder in FIXTURES} == {f"store-format-{n}" for n in range(1, len(migrations()) + 1)}


def test_it_is_what_that_format_makes(fixture: Path, tmp_path: Path) -> None:
    """A format that has a fixture is not changed any more; what changes is made by the next migration."""
    number = int(fixture.name.rpartition("-")[2])
    restore(fixture, tmp_path / "ws")
    Database(tmp_path / "made.db", scripts=migrations()[:number]).close()
    schemas = []
    for path in (tmp_path / "ws/.agentmd/agentmd.db", tmp_path / "made.db"):
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA user_version").fetchone() == (number,)
            schemas.append(connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall())
    assert schemas[0] == schemas[1]


def test_it_belongs_to_no_machine(fixture: Path) -> None:
    for name in DATABASES:
        text = (fixture / f"{name}.sql").read_text(encoding="utf-8")
        assert not any(place in text for place in ("/tmp/", "/home/", "/root/", "/Users/"))


def test_the_one_that_waits(restored: Restored) -> None:
    assert restored.execution(WAITING).status is Status.WAITING
    assert {request.kind for request in restored.open_requests(WAITING)} == {RequestKind.CONFIRM, RequestKind.INPUT}
    assert restored.cli("pending").out.count("waiting") == 2
    restored.answer_all(WAITING)
    assert restored.execution(WAITING).output == "All done."
    assert restored.outcomes(WAITING) == {
        "guarded": (CallOutcome.DONE, "did G"),
        "asking": (CallOutcome.DONE, "did Q for Ann"),
        "plain": (CallOutcome.DONE, "did P"),
    }
    assert restored.effects() == {"waiting:G": 1, "waiting:Q": 1}  # P was done when the fixture was made


def test_the_one_that_is_queued(restored: Restored) -> None:
    assert restored.execution(QUEUED).status is Status.QUEUED
    assert restored.cli("resume", str(QUEUED)).code == 3
    assert restored.effects() == {"queued:G": 1}
    restored.answer_all(QUEUED)
    assert restored.execution(QUEUED).output == "All done."
    assert restored.effects() == {"queued:G": 1, "queued:Q": 1}


def test_the_one_whose_process_died(restored: Restored) -> None:
    assert restored.execution(CRASHED).status is Status.RUNNING
    assert "crashed" in restored.cli("resume").out
    assert restored.cli("resume", str(CRASHED)).code == 3
    restored.answer_all(CRASHED)
    assert restored.execution(CRASHED).output == "All done."
    outcome, text = restored.outcomes(CRASHED)["plain"]
    assert outcome is CallOutcome.UNKNOWN
    assert "may have run" in (text or "")
    assert restored.effects() == {"crashed:G": 1, "crashed:Q": 1}
    assert restored.execution(CRASHED).usage.total_tokens == 33


def test_all_at_once_and_what_was_said_before_is_still_shown(restored: Restored) -> None:
    for execution_id in (WAITING, QUEUED, CRASHED):
        shown = restored.cli("logs", "-e", str(execution_id))
        assert shown.code == 0, shown
        assert "Let me see." in shown.out
    assert restored.cli("resume", "--all").code == 3
    for execution_id in (WAITING, QUEUED, CRASHED):
        restored.answer_all(execution_id)
        assert restored.execution(execution_id).status is Status.SUCCESS
    assert set(restored.effects().values()) == {1}
    with closing(sqlite3.connect(restored.workspace / ".agentmd/agentmd_checkpoints.db")) as connection:
        threads = connection.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall()
    assert len(threads) == 3  # the checkpoints of the fixture were used, none was begun beside them

"""Executions of every released store format go on with this program: each fixture is what that format left on disk."""

from __future__ import annotations

import collections
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_md import Workspace
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import CallOutcome, RequestKind, Status
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.migrate import migrations
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from tests.fixtures.make import DATABASES, FOLDER, restore
from tests.support.processes import Cli, preload

FIXTURES = sorted(FOLDER.glob("store-format-*"))
WAITING, QUEUED, CRASHED = ExecutionId(1), ExecutionId(2), ExecutionId(3)
ALL = (WAITING, QUEUED, CRASHED)


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    preload()


class Restored:
    """The workspace of a fixture, opened by this program."""

    def __init__(self, fixture: Path, folder: Path) -> None:
        restore(fixture, folder)
        self.folder = folder
        self.workspace = Workspace(folder)

    @property
    def checkpoints(self) -> Path:
        return self.folder / ".agentmd/agentmd_checkpoints.db"

    def effects(self) -> collections.Counter[str]:
        log = self.folder / "world.log"
        return collections.Counter(log.read_text().split()) if log.exists() else collections.Counter()

    def answer_all(self, execution_id: ExecutionId) -> None:
        while requests := self.workspace.requests(execution_id):
            answer = {"approved": True} if requests[0].kind is RequestKind.CONFIRM else {"text": "Ann"}
            self.workspace.answer(requests[0], answer)
            assert self.workspace.resume(execution_id).status in (Status.WAITING, Status.SUCCESS)

    def outcomes(self, execution_id: ExecutionId) -> dict[str, tuple[CallOutcome | None, str | None]]:
        store = SqliteStore(self.folder / ".agentmd/agentmd.db", workers=LockWorkers(self.folder / ".agentmd/workers"))
        try:
            return {call.tool: (call.outcome, call.result) for call in store.calls(execution_id)}
        finally:
            store.close()


@pytest.fixture(params=FIXTURES, ids=lambda fixture: fixture.name)
def fixture(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


@pytest.fixture(params=["with checkpoints", "without checkpoints"])
def restored(request: pytest.FixtureRequest, fixture: Path, tmp_path: Path) -> Iterator[Restored]:
    made = Restored(fixture, tmp_path / "ws")
    if request.param == "without checkpoints":
        made.checkpoints.unlink()
    with made.workspace:
        yield made


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
    assert restored.workspace.execution(WAITING).status is Status.WAITING
    assert {request.kind for request in restored.workspace.requests()} == {RequestKind.CONFIRM, RequestKind.INPUT}
    restored.answer_all(WAITING)
    assert restored.workspace.execution(WAITING).output == "All done."
    assert restored.outcomes(WAITING) == {
        "guarded": (CallOutcome.DONE, "did G"),
        "asking": (CallOutcome.DONE, "did Q for Ann"),
        "plain": (CallOutcome.DONE, "did P"),
    }
    assert restored.effects() == {"waiting:G": 1, "waiting:Q": 1}  # P was done when the fixture was made


def test_the_one_that_is_queued(restored: Restored) -> None:
    assert restored.workspace.execution(QUEUED).status is Status.QUEUED
    assert restored.workspace.resume(QUEUED).status is Status.WAITING
    assert restored.effects() == {"queued:G": 1}
    restored.answer_all(QUEUED)
    assert restored.workspace.execution(QUEUED).output == "All done."
    assert restored.effects() == {"queued:G": 1, "queued:Q": 1}


def test_the_one_whose_process_died(restored: Restored) -> None:
    assert restored.workspace.execution(CRASHED).status is Status.RUNNING
    assert restored.workspace.resume(CRASHED).status is Status.WAITING
    restored.answer_all(CRASHED)
    assert restored.workspace.execution(CRASHED).output == "All done."
    outcome, text = restored.outcomes(CRASHED)["plain"]
    assert outcome is CallOutcome.UNKNOWN
    assert "may have run" in (text or "")
    assert restored.effects() == {"crashed:G": 1, "crashed:Q": 1}
    assert restored.workspace.execution(CRASHED).usage.total_tokens == 33


def test_all_at_once_by_commands_and_what_was_said_before_is_still_shown(fixture: Path, tmp_path: Path) -> None:
    restored = Restored(fixture, tmp_path / "ws")
    cli = Cli(restored.folder)
    assert cli("pending").out.count("waiting") == 2
    assert "crashed" in cli("resume").out
    for execution_id in ALL:
        shown = cli("logs", "-e", str(execution_id))
        assert shown.code == 0, shown
        assert "Let me see." in shown.out
    assert cli("resume", "--all").code == 3
    with restored.workspace:
        for execution_id in ALL:
            restored.answer_all(execution_id)
            assert restored.workspace.execution(execution_id).status is Status.SUCCESS
    assert set(restored.effects().values()) == {1}
    with closing(sqlite3.connect(restored.checkpoints)) as connection:
        threads = connection.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall()
    assert len(threads) == 3  # the checkpoints of the fixture were used, none was begun beside them

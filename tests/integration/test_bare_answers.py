"""An answer that names no request counts for the first one of an execution, and for those that its giver has seen."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.executions.requests import Request
from agent_md.stores.sqlite.store import SqliteStore
from tests.support.driving import Workspace, call, turn
from tests.support.workers import FakeWorkers

DELETES = [turn(call("file_delete", path=name)) for name in ("a", "b")]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.agent("tools: [kit]")
    workspace.tools("")
    for name in "abc":
        workspace.write(name)
    yield workspace
    workspace.close()


def unseen(work: Workspace, by: str = "cli:ann") -> list[Request]:
    return work.app.responder.unseen(work.execution, work.open_requests(), by)


def test_the_first_request_counts_unseen_and_a_later_one_when_it_was_shown(work: Workspace) -> None:
    work.script(*DELETES, "Done.")
    work.start()
    assert unseen(work) == []
    work.answer()
    later = work.the_request()
    assert unseen(work) == [later]
    work.app.store.showings.record([later], "http:ann")
    assert unseen(work) == [later], "somebody else has seen it"
    work.app.store.showings.record([later], "cli:ann")
    assert unseen(work) == []


def test_what_was_asked_at_once_with_the_first_counts_too(work: Workspace) -> None:
    work.script(turn(call("file_delete", path="a"), call("file_write", path="b", content="")), "Done.")
    work.start()
    assert len(work.open_requests()) == 2
    assert unseen(work) == []


def test_what_is_asked_again_after_a_change_is_a_later_request(work: Workspace) -> None:
    work.script(turn(call("file_delete", path="a"), call("file_delete", path="b")), "Done.")
    work.start()
    first, second = work.open_requests()
    work.write("a", "changed")
    work.answer(first)
    again = next(request for request in work.open_requests() if request.id != second.id)
    assert unseen(work) == [again]


def test_questions_of_a_tool(work: Workspace) -> None:
    work.tools(
        '@tool\ndef it() -> str:\n    "It."\n    request_confirmation("One?")\n    request_confirmation("Two?")\n    return ""\n'
    )
    work.script(turn(call("it")), "Done.")
    work.start()
    assert unseen(work) == []
    work.answer()
    assert [request.message for request in unseen(work)] == ["Two?"]


def test_a_store_that_cannot_be_written_only_loses_the_record(work: Workspace) -> None:
    work.script(*DELETES, "Done.")
    work.start()
    later = work.the_request()
    database = work.app.settings.database
    frozen = SqliteStore(database, workers=FakeWorkers(), frozen=True)
    frozen.showings.record([later], "cli:ann")
    frozen.close()
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        work.app.store.showings.record([later], "cli:ann")
        assert time.monotonic() - began < 5
    assert work.app.store.showings.shown([later.id], "cli:ann") == frozenset()
    work.app.store.showings.record([later], "cli:ann")
    assert work.app.store.showings.shown([later.id], "cli:ann") == {later.id}

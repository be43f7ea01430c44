"""Executions that older versions created hold all their first messages as a list; they go on, and are told once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.executions.execution import NewExecution
from agent_md.executions.states import Status, TriggerKind
from agent_md.graph.messages import from_stored
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.migrate import migrations
from tests.support.driving import Workspace, call, turn

FORMAT = 4
"""The last one whose openings are lists."""

SEED = [
    {"type": "system", "data": {"content": "Be brief.", "id": "system"}},
    {"type": "human", "data": {"content": "First.", "id": "human:1"}},
    {"type": "ai", "data": {"content": "One.", "id": "1:ai:0"}},
    {"type": "human", "data": {"content": "Second.", "id": "human:2"}},
]
TOLD = ["Be brief.", "First.", "One.", "Second."]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools("")
    workspace.agent("tools: [kit]\nconfirm: [danger]\nhistory: high")
    yield workspace
    workspace.close()


def older(work: Workspace, session: str = "s") -> Path:
    """A database of the older format in which one turn is queued, with a window of its conversation."""
    spec = work.app.registry.get("worker").spec
    path = work.folder / ".agentmd/agentmd.db"
    path.parent.mkdir(exist_ok=True)
    database = Database(path, scripts=migrations()[:FORMAT])
    with database.write():
        database.run("INSERT INTO specs VALUES (?, ?)", spec.digest, spec.to_json())
        database.run("INSERT INTO sessions (agent, session_id, created_at) VALUES ('worker', ?, 1.0)", session)
        database.run(
            "INSERT INTO executions (id, agent, spec_digest, trigger, session_id, seed, status, epoch, attempts,"
            " created_at) VALUES (7, 'worker', ?, 'chat', ?, ?, 'queued', 0, 0, 1.0)",
            *(spec.digest, session, json.dumps(SEED)),
        )
        for key, kind, text, data in (
            ("system", "system", "Started", {}),
            ("human", "human", "Second.", {"message": SEED[-1]}),
        ):
            database.run(
                "INSERT INTO events (execution_id, key, type, message, data, at) VALUES (7, ?, ?, ?, ?, 1.0)",
                *(key, kind, text, json.dumps(data)),
            )
    database.close()
    return path


def told(work: Workspace, number: int = -1) -> list[str]:
    return [str(message.content) for message in work.histories[number]]


@pytest.mark.parametrize("lose", [False, True], ids=["with checkpoints", "without checkpoints"])
def test_it_is_told_all_of_it_once_over_a_pause(work: Workspace, lose: bool) -> None:
    older(work)
    work.script(turn(call("danger", key="A")), "Done.")
    work.go_on()
    assert work.execution.status is Status.WAITING
    assert told(work) == TOLD
    work.restart(lose_checkpoints=lose)
    work.answer()
    work.check_succeeded()
    assert told(work) == [*TOLD, "", "did A"]
    assert work.effects() == {"A": 1}


def test_a_thread_that_an_older_version_began_goes_on(work: Workspace) -> None:
    """Its messages are whole, and begin with those that were said before."""
    older(work)
    work.script(turn(call("danger", key="A")), "Done.")
    work.go_on()
    whole = [*from_stored(SEED), *from_stored([work.app.store.model_step(work.execution.id, 0) or {}])]
    work.restart(meanwhile=lambda: fill(work, whole))
    work.answer()
    work.check_succeeded()
    assert told(work) == [*TOLD, "", "did A"]


def fill(work: Workspace, whole: list[object]) -> None:
    """Puts whole messages in the place of those that stand for them."""
    from agent_md.stores.checkpoints import Checkpoints

    with closing(Checkpoints(work.folder / ".agentmd/agentmd_checkpoints.db")) as saver, saver.cursor() as cursor:
        rows = cursor.execute("SELECT rowid, value, type FROM writes WHERE channel = 'messages'").fetchall()
        changed = 0
        for rowid, value, kind in rows:
            held = saver.serde.loads_typed((kind, value))
            by_id = {message.id: message for message in whole}  # type: ignore[attr-defined]
            new = [by_id.get(message.id, message) for message in held]
            changed += new != held
            cursor.execute("UPDATE writes SET value = ? WHERE rowid = ?", (saver.serde.dumps_typed(new)[1], rowid))
    assert changed


def test_the_next_turn_refers_to_it_as_to_any_other(work: Workspace) -> None:
    older(work)
    work.script("Done.")
    work.go_on()
    work.check_succeeded()
    spec = work.app.registry.get("worker").spec
    new = NewExecution(
        "worker",
        TriggerKind.CHAT,
        (SEED[0], {"type": "human", "data": {"content": "Third.", "id": "h3"}}),
        "s",
        history=200,
    )
    created = work.app.store.create(
        new, spec=spec.to_json(), spec_digest=spec.digest, skip_if_waiting=False, worker=None
    )
    seed = [message["data"]["content"] for message in work.app.store.seed(created.id)]
    assert seed == ["Be brief.", "Second.", "Done.", "Third."]
    with closing(sqlite3.connect(work.folder / ".agentmd/agentmd.db")) as connection:
        (stored,) = connection.execute("SELECT seed FROM executions WHERE id = ?", (created.id,)).fetchone()
    assert json.loads(stored)["turns"] == [7]

"""What a turn of a long conversation takes on disk: as much as was said in it, however much of the past it is told."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.executions.execution import NewExecution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import TriggerKind
from agent_md.stores.sqlite.store import SqliteStore
from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import preload
from tests.support.scenes import SPEC, W1, human, journal_of, record, succeed
from tests.support.workers import FakeWorkers

KB = 1000
LIMIT = 10 * KB
"""For a turn in which two kilobytes are said, by whomever."""
HISTORY = {"off": 0, "low": 10, "medium": 50, "high": 200}


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    preload()


def text(name: str, length: int) -> str:
    return (f"{name}." * length)[:length]


class Chat:
    """A conversation in a session, each of whose turns says as much as the others."""

    def __init__(self, path: Path, history: str, asked: int = KB, answered: int = KB) -> None:
        self.folder = AgentFolder(path)
        self.turns = 0
        self.history = history
        self._asked, self._answer = asked, text("answer", answered)
        script = json.dumps({"conversations": [{"turns": [{"text": self._answer}]}]})
        self.folder.agent("bot", script, f"history: {history}\nsettings: {{max_execution_tokens: 1000000000}}")

    def question(self, turn: int) -> str:
        return text(f"turn-{turn:04}", self._asked)

    def go_on(self, turns: int) -> None:
        lines = "".join(f"{self.question(self.turns + n)}\n" for n in range(turns))
        given = self.folder.file("lines", lines)
        ended = self.folder.cli("chat", "bot", "--session", "s", prepare=lambda: _read(given))
        assert ended.code == 0, ended
        self.turns += turns

    def size(self) -> int:
        """The bytes of both files, without room that SQLite keeps for later."""
        total = 0
        for name in ("agentmd.db", "agentmd_checkpoints.db"):
            with closing(sqlite3.connect(self.folder.path / ".agentmd" / name)) as connection:
                pages, free, size = (
                    connection.execute(f"PRAGMA {pragma}").fetchone()[0]
                    for pragma in ("page_count", "freelist_count", "page_size")
                )
                total += (pages - free) * size
        return total

    def check_told(self) -> None:
        """The last turn was told of as many messages as the history allows, and of which."""
        with self.folder.store() as store:
            (last,) = store.executions(limit=1)
            told = [m["data"]["content"] for m in store.seed(last.id) if m["type"] != "system"]
        past = [said for turn in range(self.turns - 1) for said in (self.question(turn), self._answer)]
        assert told == [*past[len(past) - min(len(past), HISTORY[self.history]) :], self.question(self.turns - 1)]


def _read(given: Path) -> None:
    os.dup2(os.open(given, os.O_RDONLY), 0)


def check(chat: Chat, first: int, more: int) -> None:
    chat.go_on(first)
    before = chat.size()
    chat.go_on(more)
    assert (chat.size() - before) / more <= LIMIT
    chat.check_told()


@pytest.mark.parametrize("history", ["off", "high"])
def test_a_turn_costs_what_was_said_at_any_history(tmp_path: Path, history: str) -> None:
    check(Chat(tmp_path / "ws", history), 5, 25)


@pytest.mark.parametrize(("asked", "answered"), [(50, 1950), (1950, 50)])
def test_whoever_says_it(tmp_path: Path, asked: int, answered: int) -> None:
    check(Chat(tmp_path / "ws", "high", asked, answered), 5, 15)


@pytest.mark.stress
@pytest.mark.parametrize("history", HISTORY)
def test_a_turn_costs_the_same_after_hundreds(tmp_path: Path, history: str) -> None:
    check(Chat(tmp_path / "ws", history), 150, 100)


def test_the_messages_that_a_session_began_with_and_its_instructions_are_stored_once(tmp_path: Path) -> None:
    """Also when each turn is told of all of them."""
    store = SqliteStore(tmp_path / "agentmd.db", workers=FakeWorkers(W1))
    long = text("before", 20 * KB)
    state = [
        {"type": "system", "data": {"content": text("rule", 20 * KB), "id": "s0"}},
        *({"type": "human", "data": {"content": long, "id": f"s{n}"}} for n in range(1, 5)),
    ]
    store.sessions.create("writer", "s", state=state)
    for number in range(12):
        new = NewExecution("writer", TriggerKind.CHAT, (human(f"turn {number}"),), "s", history=200)
        execution = store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=False, worker=W1)
        seed = store.seed(execution.id)
        assert [m["type"] for m in seed[:5]] == ["system", *["human"] * 4]
        assert all(m["data"]["content"] == long for m in seed[1:5])
        journal = journal_of(store, execution)
        record(journal)
        succeed(journal)
    before = store.seed(execution.id)
    assert store.sessions.delete("writer", "s", by="me") == []
    assert store.seed(execution.id) == before  # what was told stays to be seen
    store.close()
    with closing(sqlite3.connect(tmp_path / "agentmd.db")) as connection:
        seeds = [len(row[0]) for row in connection.execute("SELECT seed FROM executions ORDER BY id")]
    assert seeds[0] > 100 * KB
    assert max(seeds[1:]) < 200


def test_the_texts_of_events_are_what_they_were(tmp_path: Path) -> None:
    """A text that stands in its message too is stored once; whoever reads events sees no difference."""
    folder = AgentFolder(tmp_path / "ws")
    folder.tools("noting", NOTE)
    turns = [
        {"text": "Let me see.", "calls": [call("note", key="A")]},
        {"calls": [call("note", key="B")]},
        {"text": "Done."},
    ]
    folder.agent("worker", turns, "tools: [noting]")
    assert folder.cli("run", "worker").code == 0
    with folder.store() as store:
        events = {event.key: event.message for event in store.events(ExecutionId(1))}
    assert events == {
        "system": "Started",
        "human": "Begin.",
        "ai:0": "Let me see.",
        "call:0.0": 'note → {"key": "A"}',
        "result:0.0": "noted A",
        "ai:1": "",
        "call:1.0": 'note → {"key": "B"}',
        "result:1.0": "noted B",
        "ai:2": "Done.",
        "final": "Done.",
        "complete": "success",
    }
    assert folder.results() == ["noted A", "noted B"]
    with closing(sqlite3.connect(folder.path / ".agentmd/agentmd.db")) as connection:
        twice = connection.execute(
            "SELECT key FROM events WHERE message <> '' AND message = json_extract(data, '$.message.data.content')"
        )
        assert twice.fetchall() == []


NOTE = '''
from langchain_core.tools import tool

@tool
def note(key: str) -> str:
    """Notes it."""
    return "noted " + key
'''

"""`agentmd checkpoint`, and the sweep of a server: what they show and what they remove."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_md.cli.commands.checkpoint import size_text
from agent_md.executions.states import Status
from agent_md.executions.thread_names import owner_of
from tests.support.agent_folder import AgentFolder, call
from tests.support.many_executions import age, copy_execution, thread_names
from tests.support.server import Server
from tests.support.waiting import until

ASKS = [{"calls": [call("file_delete", path="old.txt")]}, {"text": "Done."}]


@pytest.fixture
def used(folder: AgentFolder) -> AgentFolder:
    """`writer` has ended three times long ago (1, 3, 4), `cleaner` waits (2)."""
    folder.agent("writer", [{"text": "Done."}], "history: off")
    folder.agent("cleaner", ASKS)
    folder.file("old.txt")
    assert folder.cli("run", "writer", "-q").code == 0
    assert folder.cli("run", "cleaner", "-q").code == 3
    copy_execution(state(folder), 1, 2)
    age(state(folder), 31)
    return folder


def state(folder: AgentFolder) -> Path:
    return folder.path / ".agentmd"


def shown(folder: AgentFolder, *options: str) -> dict[str, Any]:
    ended = folder.cli("checkpoint", *options, "--json")
    assert ended.code == 0, ended
    found: dict[str, Any] = json.loads(ended.out)
    assert found.pop("file") == str(state(folder) / "agentmd_checkpoints.db")
    return found


def owners(folder: AgentFolder) -> set[int | None]:
    return {owner_of(name) for name in thread_names(state(folder))}


def test_what_there_is_by_agent(used: AgentFolder) -> None:
    found = shown(used)
    assert found == shown(used, "--stats")
    assert [(row["agent"], row["threads"]) for row in found["agents"]] == [("cleaner", 1), ("writer", 3)]
    assert all(0 < row["bytes"] < found["bytes"] for row in found["agents"])
    assert found["threads"] == 4
    assert [row["agent"] for row in shown(used, "--agent", "WRITER")["agents"]] == ["writer"]
    ended = used.cli("checkpoint")
    assert ended.code == 0
    assert [line.split()[:2] for line in ended.out.splitlines()[2:4]] == [["cleaner", "1"], ["writer", "3"]]
    assert f"agentmd_checkpoints.db: 4 threads, {size_text(found['bytes'])} on the disk" in ended.out


def test_what_a_purge_removes_and_says(used: AgentFolder) -> None:
    assert shown(used, "--purge", "--agent", "cleaner")["removed"] == 0
    before = shown(used)["bytes"]
    purged = shown(used, "--purge")
    assert (purged["removed"], purged["kept"], purged["driven"]) == (2, 2, [])
    assert purged["bytes_before"] >= purged["bytes_after"] == shown(used)["bytes"]
    assert before > 0
    assert owners(used) == {2, 4}
    ended = used.cli("checkpoint", "--purge")
    assert ended.out.startswith("Removed 0 threads, kept 2. ")
    assert " before, " in ended.out
    assert used.cli("logs", "-e", "1").code == 0


def test_force_leaves_nothing_and_what_waits_is_answered_as_before(used: AgentFolder) -> None:
    purged = shown(used, "--purge", "--force")
    assert (purged["removed"], purged["kept"], purged["driven"]) == (4, 0, [])
    assert owners(used) == set()
    assert used.cli("respond", "2", "--yes", "-q").code == 0
    assert not (used.path / "old.txt").exists()
    assert used.execution(2).status is Status.SUCCESS


def test_where_the_sweep_is_off_a_purge_says_that_nothing_is_old(used: AgentFolder) -> None:
    used.file("config.yaml", "defaults: {checkpoint_retention_days: 0}\n")
    ended = used.cli("checkpoint", "--purge")
    assert (ended.code, owners(used)) == (0, {1, 2, 3, 4})
    assert "checkpoint_retention_days is none" in ended.err
    with Server(used.path):
        pass
    assert owners(used) == {1, 2, 3, 4}


def test_wrong_usage_removes_nothing(used: AgentFolder) -> None:
    for options in (["--force"], ["--stats", "--purge"], ["--purge", "--agent", "nobody"], ["--agent", ""]):
        ended = used.cli("checkpoint", *options)
        assert (ended.code, ended.out) == (2, "")
        assert ended.err.startswith("agentmd: ")
    assert owners(used) == {1, 2, 3, 4}


def test_a_workspace_where_nothing_ever_ran_stays_as_it_is(folder: AgentFolder) -> None:
    folder.agent("writer", [{"text": "Done."}])
    assert shown(folder) == {"bytes": 0, "threads": 0, "agents": []}
    assert shown(folder, "--purge", "--force", "--agent", "writer")["removed"] == 0
    assert not state(folder).exists()


def test_a_damaged_file_is_said_and_a_purge_puts_it_aside(used: AgentFolder) -> None:
    for path in state(used).glob("agentmd_checkpoints.db*"):
        path.unlink()
    (state(used) / "agentmd_checkpoints.db").write_bytes(b"not a database" * 1000)
    ended = used.cli("checkpoint")
    assert ended.code == 1
    assert "damaged" in ended.err
    assert shown(used, "--purge")["removed"] == 0
    assert list(state(used).glob("*.damaged-1"))
    assert used.cli("respond", "2", "--yes", "-q").code == 0


def skip_firings(folder: AgentFolder, count: int) -> None:
    """So many firings of an agent that were skipped; one of them has an execution."""
    with closing(sqlite3.connect(state(folder) / "agentmd.db", timeout=30)) as store, store:
        store.execute(
            "WITH RECURSIVE slots (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM slots WHERE n < ?)"
            " INSERT INTO firings (agent_key, agent, trigger, key, due_at, state, reason)"
            " SELECT 'writer', 'writer', 'schedule', n, n, 'skipped', 'overlapping' FROM slots",
            (count,),
        )
        store.execute("UPDATE firings SET state = 'started', execution_id = 4 WHERE key = 1")


def test_a_server_sweeps_when_it_starts(used: AgentFolder) -> None:
    skip_firings(used, 3500)
    with Server(used.path):
        until(lambda: owners(used) == {2, 4}, 60)
        with used.store() as store:
            keys = [firing.key for firing in store.firings.listed()]
        assert keys == [*(str(number) for number in range(3500, 2500, -1)), "1"]
        assert used.cli("respond", "2", "--yes").code == 0
        used.until_status(Status.SUCCESS, 2)
    assert used.execution(1).status is Status.SUCCESS


def test_a_server_removes_whole_executions_if_it_is_to(used: AgentFolder) -> None:
    used.file("config.yaml", "retention: {executions_days: 30}\n")
    with Server(used.path):
        until(lambda: owners(used) == {2, 4}, 60)
        ended = used.cli("logs", "-e", "3")
        assert ended.code == 2
        assert "execution 3 of writer ended at" in ended.err
        assert "retention.executions_days" in ended.err
        assert used.cli("respond", "2", "--yes").code == 0
        used.until_status(Status.SUCCESS, 2)
    with used.store() as store:
        assert [x.id for x in store.executions()] == [4, 2]


def test_sizes_as_people_read_them() -> None:
    texts = [size_text(size) for size in (0, 999, 1000, 12_345, 9_960_000, 3_400_000_000, 10**16)]
    assert texts == ["0 B", "999 B", "1.0 kB", "12 kB", "10.0 MB", "3.4 GB", "10,000 TB"]

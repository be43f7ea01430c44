"""Whole executions are removed: what refers to them reads as before, and their room is given back."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import UnknownExecution
from agent_md.executions.costs import CostBy
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from tests.support.driving import Workspace, call, turn
from tests.support.many_executions import age, copy_execution, thread_names

DAYS = 30


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "ws")
    made.tools("")
    yield made
    made.close()


def state(work: Workspace) -> Path:
    return work.folder / ".agentmd"


def ran(work: Workspace, number: int, **options: Any) -> Execution:
    work.script(turn(call("plain", key=f"k{number}"), usage={"input": 1, "output": 1, "cost": 0.25}), f"Said {number}.")
    execution = work.start(message=f"Asked {number}", **options)
    assert execution.status is Status.SUCCESS
    return execution


def ids(work: Workspace) -> list[int]:
    return sorted(execution.id for execution in work.app.store.executions())


def openings(work: Workspace) -> dict[int, list[dict[str, Any]]]:
    return {execution_id: work.app.store.seed(ExecutionId(execution_id)) for execution_id in ids(work)}


def remove(work: Workspace) -> int:
    return work.app.retention.remove_executions(DAYS, lambda _: None)


@pytest.mark.parametrize("history", ["off", "low"])
def test_what_stays_begins_with_what_it_began_with(work: Workspace, history: str) -> None:
    """With history, each of a chain refers to those before it: the chain is cut where the first that stays is old. The
    first of all stays because it has the instructions, which are the same for all."""
    work.agent(f"tools: [kit]\nhistory: {history}")
    for number in range(1, 13):
        ran(work, number)
    age(state(work), DAYS + 1)
    ran(work, 13)
    before = openings(work)
    assert remove(work) > 0
    assert ids(work)[-1] == 13
    assert not {2, 3, 4, 5, 6} & set(ids(work))
    if history == "off":
        assert ids(work) == [1, 13]
    assert openings(work) == {execution_id: before[execution_id] for execution_id in ids(work)}
    work.restart()
    assert openings(work) == {execution_id: before[execution_id] for execution_id in ids(work)}
    assert remove(work) == 0
    ran(work, 14)
    told = [m["data"]["content"] for m in work.app.store.seed(work.execution.id) if m["type"] == "human"]
    assert told == (["Asked 12", "Asked 13", "Asked 14"] if history == "low" else ["Asked 14"])


def test_the_next_one_is_told_what_it_would_have_been_told(work: Workspace) -> None:
    work.agent("tools: [kit]\nhistory: low")
    for number in range(1, 9):
        ran(work, number)
    age(state(work), DAYS + 1)
    assert remove(work) > 0
    kept = ids(work)
    ran(work, 9)
    told = [m["data"]["content"] for m in work.app.store.seed(work.execution.id) if m["type"] == "human"]
    assert told == ["Asked 7", "Asked 8", "Asked 9"]
    assert kept[-1] == 8


def test_one_that_is_created_in_between_keeps_what_it_begins_with(work: Workspace) -> None:
    """The agent remembers more than when the removal was planned."""
    work.agent("tools: [kit]\nhistory: off")
    for number in range(1, 5):
        ran(work, number)
    age(state(work), DAYS + 1)
    planned = work.app.store.retention.removable(time.time() - DAYS * 86_400)
    assert planned.ids == (2, 3)
    work.agent("tools: [kit]\nhistory: low")
    ran(work, 5)
    before = work.app.store.seed(work.execution.id)
    while planned.ids:
        _, planned = work.app.store.retention.remove_some(planned)
    assert work.app.store.seed(work.execution.id) == before
    assert {3, 4, 5} <= set(ids(work))


def test_what_waits_goes_on_while_others_are_removed(work: Workspace) -> None:
    work.agent("tools: [kit]\nconfirm: [danger]\non_pending: parallel\nhistory: low")
    for number in range(1, 4):
        ran(work, number)
    work.script(turn(call("danger", key="A")), "Done.")
    work.start()
    age(state(work), DAYS + 1)
    before = work.app.store.seed(work.execution.id)
    remove(work)
    work.restart(lose_checkpoints=True)
    assert work.app.store.seed(work.execution.id) == before
    assert work.answer().status is Status.SUCCESS
    assert work.effects()["A"] == 1


def test_many_go_in_short_steps_and_the_file_shrinks(work: Workspace) -> None:
    work.agent("tools: [kit]\nhistory: off")
    first = ran(work, 1)
    copy_execution(state(work), first.id, 1000)
    age(state(work), DAYS + 1)
    last = ran(work, 2)
    path = state(work) / "agentmd.db"
    work.restart()
    before = path.stat().st_size
    steps: list[float] = []
    assert work.app.retention.remove_executions(DAYS, lambda seconds: steps.append(seconds)) == 1000
    assert 50 <= len(steps) < 150
    assert path.stat().st_size < before / 3
    assert ids(work) == [1001, last.id]
    with closing(sqlite3.connect(path)) as store:
        assert store.execute("SELECT count(*) FROM events WHERE execution_id <= 1000").fetchone() == (0,)
        assert store.execute("PRAGMA foreign_key_check").fetchall() == []
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    work.app.retention.threads().purge(None)
    assert len(thread_names(state(work))) == 2


def test_a_tombstone_keeps_cost_answers_and_model(work: Workspace) -> None:
    work.agent("tools: [kit]\nconfirm: [danger]\nhistory: off")
    ran(work, 1)
    work.script(turn(call("danger", key="A"), usage={"input": 3, "output": 2, "cost": 0.5}), "Done.")
    work.start()
    work.answer(response={"approved": False})
    age(state(work), DAYS + 1)
    ran(work, 3)
    costs = [work.app.store.costs(by) for by in CostBy]
    assert remove(work) == 1
    with closing(sqlite3.connect(state(work) / "agentmd.db")) as store:
        (agent, status, model, answers) = store.execute(
            "SELECT agent, status, model, answers FROM tombstones"
        ).fetchone()
        assert store.execute("SELECT count(*) FROM specs").fetchone()[0] >= 1
    assert (agent, status, json.loads(model)["name"]) == ("worker", "success", "worker")
    assert [work.app.store.costs(by) for by in CostBy] == costs
    assert [cost.key for cost in costs[1] + costs[2]] == ["worker", "script/worker"]
    ((_, outcome, value, by, *_),) = json.loads(answers)
    assert (outcome, json.loads(value)["approved"], by) == ("denied", False, "cli:ann")
    with pytest.raises(UnknownExecution, match=r"execution 2 of worker ended .* \(success\) and was removed at"):
        work.app.store.execution(ExecutionId(2))


def test_a_removal_that_is_cut_anywhere_leaves_whole_executions(work: Workspace) -> None:
    work.agent("tools: [kit]\nhistory: low")
    ran(work, 1)
    copy_execution(state(work), 1, 60)
    age(state(work), DAYS + 1)
    ran(work, 2)
    before = openings(work)
    for _ in range(20):
        if work.app.retention.remove_executions(DAYS, lambda _: True) == 0:
            break
        work.restart()
        assert openings(work) == {execution_id: before[execution_id] for execution_id in ids(work)}
    assert remove(work) == 0
    with closing(sqlite3.connect(state(work) / "agentmd.db")) as store:
        assert store.execute("PRAGMA foreign_key_check").fetchall() == []

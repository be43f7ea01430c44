"""`pending` with thousands of questions: it costs little more than to start the command."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from agent_md.agents.registry import scan
from agent_md.executions.execution import Claim, NewExecution
from agent_md.executions.states import TriggerKind
from agent_md.settings import load_settings
from agent_md.stores.sqlite.store import SqliteStore
from tests.support.agent_folder import AgentFolder
from tests.support.scenes import W1, ask, human
from tests.support.trusting import TRUSTING
from tests.support.workers import FakeWorkers

AGENTS = 40
EACH = 4
"""Requests of one execution."""


def waiting(folder: AgentFolder, count: int) -> None:
    """`count` open requests of executions of many agents, one of which has changed since."""
    for number in range(AGENTS):
        folder.agent(f"a{number}", [{"text": "Hello."}])
    (folder.path / ".agentmd").mkdir()
    settings = load_settings(folder.path, environ=TRUSTING, cwd=folder.path, home=folder.path)
    specs = [entry.spec for entry in scan(settings.agents_dir, settings.workspace, settings.defaults).agents]
    store = SqliteStore(settings.database, workers=FakeWorkers(W1))
    for number in range(count // EACH):
        spec = specs[number % AGENTS]
        new = NewExecution(spec.name, TriggerKind.MANUAL, (human("Hello"),))
        execution = store.create(new, spec=spec.to_json(), spec_digest=spec.digest, skip_if_waiting=False, worker=W1)
        journal = store.journal(Claim(execution.id, W1, 1))
        journal.park([frozenset([request]) for request in ask(journal, count=EACH)])
    store.close()
    folder.agent("a0", [{"text": "Changed."}], "description: changed")


def cpu_of(folder: AgentFolder, *args: str) -> tuple[float, str]:
    """Seconds of computing of a command, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = folder.cli(*args)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.code == 0, ended
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, ended.out


def check(tmp_path: Path, count: int, most: float) -> None:
    few, many = AgentFolder(tmp_path / "few"), AgentFolder(tmp_path / "many")
    waiting(few, EACH)
    waiting(many, count)
    for flags in ([], ["--json"]):
        start, _ = cpu_of(few, "pending", *flags)
        whole, _ = cpu_of(many, "pending", *flags)
        assert whole < start + most, flags
    listed = json.loads(cpu_of(many, "pending", "--json")[1])
    assert len(listed) == count
    drifted = {request["agent_id"] for request in listed if request["drifted"]}
    assert drifted == {"a0"}
    lines = cpu_of(many, "pending")[1].splitlines()
    assert len(lines) == count + 2
    assert len({line.rpartition(" (request ")[2] for line in lines[2:]}) == count
    assert sum("(drifted: agent file)" in line for line in lines) == sum(request["drifted"] for request in listed)


@pytest.mark.stress  # it measures time, which another process on the machine can take
def test_a_thousand_waiting_cost_little_more_than_four(tmp_path: Path) -> None:
    check(tmp_path, 1000, most=0.25)


@pytest.mark.stress
def test_3400_waiting_cost_little_more_than_four(tmp_path: Path) -> None:
    check(tmp_path, 3400, most=0.7)

"""Ticks that no server saw, and kill -9 at the writes around them: every slot is started once, or skipped with its reason."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from agent_md.agents.spec import Trigger
from agent_md.executions.firings import Firing, FiringState
from agent_md.executions.states import Status, TriggerKind
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from agent_md.triggers.schedules import schedule_digest
from tests.support.agent_folder import AgentFolder
from tests.support.server import Server
from tests.support.snapshots import Snapshot
from tests.support.waiting import until

DAY_S = 24 * 3600.0
CAUGHT_UP = {"skip": 0, "once": 1, "all": 3}
"""How many of three ticks that were missed are started."""
MOST_WRITES = 250
"""A server that makes up for them makes about so many."""


class Missed:
    """Agents for each way to catch up, whose ticks of three days no server saw; again as often as it is wanted."""

    def __init__(self, folder: AgentFolder, copy: Path) -> None:
        self.folder = folder
        self.begun = time.time() - 3.5 * DAY_S
        for catch_up in CAUGHT_UP:
            trigger = f"trigger: {{type: schedule, every: 1d, catch_up: {catch_up}}}"
            folder.agent(catch_up, [{"text": "Done."}], trigger)
        assert folder.cli("logs").code == 0
        state = folder.path / ".agentmd"
        state.mkdir(mode=0o700)
        workers = LockWorkers(state / "workers")
        store = SqliteStore(state / "agentmd.db", workers=workers, clock=lambda: self.begun)
        for catch_up in CAUGHT_UP:
            store.firings.follow(catch_up, TriggerKind.SCHEDULE, schedule_digest(Trigger(type="schedule", every=DAY_S)))
        store.close()
        self._before = Snapshot(folder.path, copy)

    def restore(self) -> None:
        self._before.restore()

    def until_decided(self) -> None:
        until(lambda: len(self.firings()) == 3 * len(CAUGHT_UP) and self._all_ended())

    def _all_ended(self) -> bool:
        with self.folder.store() as store:
            return not store.firings.due() and all(execution.status.final for execution in store.executions())

    def firings(self, agent: str | None = None) -> list[Firing]:
        """From the first to the last one."""
        with self.folder.store() as store:
            return store.firings.listed(agent=agent)[::-1]

    def check(self) -> None:
        for agent, started in CAUGHT_UP.items():
            found = self.firings(agent)
            assert [firing.due_at for firing in found] == [self.begun + DAY_S * n for n in (1, 2, 3)]
            assert [firing.state for firing in found] == [
                *[FiringState.SKIPPED] * (3 - started),
                *[FiringState.STARTED] * started,
            ]
            assert {firing.reason for firing in found[: 3 - started]} <= {"missed: no server ran"}
        with self.folder.store() as store:
            executions = store.executions()
        assert {execution.status for execution in executions} == {Status.SUCCESS}
        assert sorted(execution.id for execution in executions) == sorted(
            firing.execution_id for firing in self.firings() if firing.execution_id is not None
        )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Missed:
    folder = tmp_path_factory.mktemp("ticks")
    return Missed(AgentFolder(folder / "ws"), folder / "copy")


@pytest.fixture
def missed(made: Missed) -> Missed:
    made.restore()
    return made


def test_the_next_server_makes_up_for_what_was_missed(missed: Missed) -> None:
    with Server(missed.folder.path) as server:
        missed.until_decided()
        missed.check()
        assert server.stop().code == 0
        assert MOST_WRITES / 2 < server.writes() < 2 * MOST_WRITES


def test_of_two_servers_that_are_started_at_once_one_does(missed: Missed) -> None:
    both = [missed.folder.cli.start("start") for _ in range(2)]
    missed.until_decided()
    until(lambda: any(process.ended for process in both))
    (refused,) = (process for process in both if process.ended)
    (serving,) = (process for process in both if process is not refused)
    assert refused.wait().code == 2
    serving.kill()
    serving.wait()
    missed.check()


def check_killed(missed: Missed, write: int) -> None:
    missed.restore()
    killed = Server(missed.folder.path, kill_before_write=write)
    until(lambda: killed.process.ended or len(missed.firings()) == 3 * len(CAUGHT_UP))
    until(lambda: killed.process.ended or missed._all_ended())
    if not killed.process.ended:
        killed.kill()
    with Server(missed.folder.path):
        missed.until_decided()
    try:
        missed.check()
    except AssertionError as error:
        raise AssertionError(f"killed before write {write}: {error}") from error


def test_killed_before_a_write(missed: Missed) -> None:
    check_killed(missed, random.randrange(1, MOST_WRITES))


@pytest.mark.stress
@pytest.mark.parametrize("write", range(1, MOST_WRITES))
def test_killed_before_every_write(missed: Missed, write: int) -> None:
    check_killed(missed, write)

"""The scheduler of a server, with a clock of the test: each slot becomes one firing, and starts or says why not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import pytest

from agent_md.agents.defaults import Defaults
from agent_md.agents.registry import Registry, scan
from agent_md.errors import MissingKey
from agent_md.executions.execution import Execution, NewExecution
from agent_md.executions.firings import Firing, FiringState
from agent_md.executions.states import Status, TriggerKind
from agent_md.triggers.loop import TriggerLoop
from agent_md.triggers.schedules import Scheduler, next_fire
from agent_md.triggers.start_or_skip import FiringStarter
from agent_md.triggers.upcoming import coming
from tests.support.clock import ManualClock
from tests.support.memory_store import MemoryStore
from tests.support.scenes import SPEC, W1, ask, human, succeed
from tests.support.workers import FakeWorkers

BEGIN = datetime(2026, 3, 27, 12, 0, tzinfo=UTC).timestamp()


class Server:
    """One server process on a workspace; `again` is the next one on the same store."""

    def __init__(self, folder: Path, store: MemoryStore, clock: ManualClock) -> None:
        self.folder, self.store, self.clock = folder, store, clock
        self.told: list[Firing] = []
        self.fails: dict[str, Exception] = {}
        self.started = 0
        self._known: tuple[dict[Path, bytes], Registry] | None = None
        self.scheduler = scheduler = Scheduler(store.firings, self.registry, clock)
        starter = FiringStarter(store, self.registry, self.start, self.told.append)
        self.loop = TriggerLoop(scheduler, starter, self.count, clock)

    def registry(self) -> Registry:
        """The agents; read again when a file of them has changed."""
        stamp = {path: path.read_bytes() for path in (self.folder / "agents").iterdir()}
        if self._known is None or self._known[0] != stamp:
            self._known = (stamp, scan(self.folder / "agents", self.folder, Defaults()))
        return self._known[1]

    def count(self) -> None:
        self.started += 1

    def start(self, firing: Firing) -> Execution:
        if firing.agent in self.fails:
            raise self.fails[firing.agent]
        spec = self.registry().get(firing.agent).spec
        return self.store.create(
            NewExecution(spec.name, firing.trigger, (human("Begin."),)),
            spec=SPEC,
            spec_digest="d",
            skip_if_waiting=spec.on_pending == "skip",
            worker=None,
            firing=firing.id,
        )

    def again(self) -> Server:
        return Server(self.folder, self.store, self.clock)

    def run_until(self, at: float, *, step: float = 30.0) -> None:
        """Looks whenever something is due, and at least every `step` seconds; every execution ends at once."""
        while self.clock.now < at:
            self.loop.look()
            self.end_all()
            due = self.scheduler.look() or at
            self.clock.now = min(at, self.clock.now + step, max(due, self.clock.now + 0.01))
        self.loop.look()
        self.end_all()

    def end_all(self) -> None:
        for execution in self.store.executions(statuses=(Status.QUEUED,)):
            claim = self.store.claim(execution.id, W1)
            assert claim is not None
            succeed(self.store.journal(claim))

    def slots(self, *states: FiringState, agent: str | None = None) -> list[float]:
        return [firing.due_at for firing in self.store.firings.listed(agent=agent, states=states)][::-1]

    def reasons(self) -> list[str]:
        return [firing.reason or "" for firing in self.store.firings.listed(states=[FiringState.SKIPPED])][::-1]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGIN)


@pytest.fixture
def server(tmp_path: Path, clock: ManualClock) -> Server:
    (tmp_path / "agents").mkdir()
    return Server(tmp_path, MemoryStore(workers=FakeWorkers(W1), clock=clock), clock)


def agent(server: Server, trigger: str, *more: str, name: str = "tidy") -> None:
    lines = "\n".join(["---", f"trigger: {{type: schedule, {trigger}}}", *more, "---", "Work.", ""])
    (server.folder / f"agents/{name}.md").write_text(lines)


def shown(server: Server, until: float) -> list[float]:
    """What `agentmd schedule` shows of all agents."""
    specs = [entry.spec for entry in server.registry().agents]
    found = coming(server.store.firings, specs, server.clock.now, 10_000)
    return [fire.at for fire in takewhile(lambda fire: fire.at <= until, found)]


@pytest.mark.parametrize(
    "trigger",
    [
        'cron: "*/20 1-3 * * *", timezone: Europe/Berlin',
        'cron: "30 2 * * *", timezone: Europe/Berlin',
        'cron: "15,45 2 * * *", timezone: America/New_York',
        'cron: "7 * * * sun", timezone: Australia/Lord_Howe',
        "every: 97m",
    ],
)
def test_the_ticks_are_those_that_are_shown(server: Server, trigger: str) -> None:
    agent(server, trigger)
    server.loop.look()
    until = BEGIN + 3 * 86_400
    expected = shown(server, until)
    server.run_until(until, step=3600)
    assert server.slots(FiringState.STARTED) == expected
    assert server.slots(FiringState.SKIPPED) == []
    assert len(server.store.executions()) == len(expected)


def test_an_interval_counts_from_when_a_server_first_saw_it_also_after_restarts(server: Server) -> None:
    agent(server, "every: 10m")
    assert server.loop.look() == 1.0
    server.run_until(BEGIN + 900)
    second = server.again()
    second.run_until(BEGIN + 1900)
    assert second.slots() == [BEGIN + 600, BEGIN + 1200, BEGIN + 1800]


def test_an_interval_that_is_changed_counts_anew_and_nothing_else_does_that(server: Server) -> None:
    agent(server, "every: 10m")
    server.loop.look()
    server.run_until(BEGIN + 300)
    agent(server, "every: 10m, catch_up: skip", "description: Changed")
    server.run_until(BEGIN + 630)
    agent(server, "every: 5m")
    server.run_until(BEGIN + 1000)
    assert server.slots() == [BEGIN + 600, BEGIN + 930]


def three_missed(server: Server, catch_up: str) -> Server:
    agent(server, f'cron: "0 * * * *", timezone: UTC, catch_up: {catch_up}')
    server.loop.look()
    server.clock.advance(3 * 3600 + 1800)  # no server runs
    second = server.again()
    second.loop.look()
    return second


@pytest.mark.parametrize(("catch_up", "started"), [("skip", 0), ("once", 1), ("all", 3)])
def test_what_was_missed_is_caught_up_as_the_agent_wants(server: Server, catch_up: str, started: int) -> None:
    second = three_missed(server, catch_up)
    for _ in range(3):  # one after the other
        assert len(second.store.executions(statuses=(Status.QUEUED, Status.RUNNING))) <= 1
        second.end_all()
        second.loop.look()
    second.end_all()
    hours = [BEGIN + 3600 * n for n in (1, 2, 3)]
    assert second.slots() == hours
    assert second.slots(FiringState.STARTED) == hours[3 - started :]
    assert second.reasons() == ["missed: no server ran"] * (3 - started)
    second.run_until(BEGIN + 4 * 3600 + 60)
    assert second.slots(FiringState.STARTED)[-1] == BEGIN + 4 * 3600


def test_no_more_than_ten_are_caught_up(server: Server) -> None:
    agent(server, 'cron: "0 * * * *", timezone: UTC, catch_up: all')
    server.loop.look()
    server.clock.advance(24 * 3600)
    second = server.again()
    for _ in range(12):
        second.loop.look()
        second.end_all()
    assert second.slots(FiringState.STARTED) == [BEGIN + 3600 * n for n in range(15, 25)]
    assert len(second.reasons()) == 14


def test_a_month_without_a_server_is_told_in_a_hundred_rows(server: Server) -> None:
    agent(server, "every: 2s")
    server.loop.look()
    server.clock.advance(30 * 86_400)
    second = server.again()
    second.loop.look()
    assert len(second.slots()) == 101
    assert second.reasons()[0].startswith("missed: no server ran; this stands for all between")
    assert len(second.slots(FiringState.STARTED)) == 1


@pytest.mark.parametrize("steps", [[-3600, 3600], [3600, -3600], [3600], [-3600, -3600, 7200], [36_000, -36_000]])
def test_each_slot_comes_once_whatever_the_steps_of_the_clock(server: Server, steps: Sequence[int]) -> None:
    agent(server, 'cron: "*/10 * * * *", timezone: UTC')
    server.loop.look()
    server.run_until(BEGIN + 1800)
    for step in steps:
        server.clock.advance(step)
        server.run_until(server.clock.now + 1800)
    slots = sorted(server.slots())
    assert slots == [slots[0] + 600 * n for n in range(len(slots))]
    assert slots[0] == BEGIN + 600
    assert len(server.store.executions()) == len(server.slots(FiringState.STARTED)) > 3


def test_a_tick_while_the_last_one_works_is_skipped(server: Server) -> None:
    agent(server, "every: 10s", "on_pending: parallel")
    server.loop.look()
    server.clock.advance(10)
    server.loop.look()
    server.clock.advance(10)
    server.loop.look()
    assert server.reasons() == ["overlapping: execution 1 still works"]
    assert [firing.due_at for firing in server.told] == [BEGIN + 20]
    server.end_all()
    server.clock.advance(10)
    server.loop.look()
    assert len(server.store.executions()) == 2


def test_a_tick_while_the_last_one_waits_is_skipped_or_runs_beside_it(server: Server) -> None:
    agent(server, "every: 10s")
    agent(server, "every: 10s", "on_pending: parallel", name="eager")
    server.loop.look()
    for _ in range(3):
        server.clock.advance(10)
        server.loop.look()
        for execution in server.store.executions(statuses=(Status.QUEUED,)):
            claim = server.store.claim(execution.id, W1)
            assert claim is not None
            journal = server.store.journal(claim)
            assert journal.park([frozenset(ask(journal))])
    assert len(server.store.executions(agent="tidy")) == 1
    assert len(server.store.executions(agent="eager", statuses=(Status.WAITING,))) == 3
    assert [reason.split(":")[0] for reason in server.reasons()] == ["waiting"] * 2


def test_a_pause_survives_a_restart_and_skips_with_its_reason(server: Server) -> None:
    agent(server, "every: 10s")
    server.loop.look()
    server.store.firings.pause("tidy", "cli:ann")
    second = server.again()
    second.run_until(BEGIN + 10, step=1)
    assert second.reasons() == ["paused by cli:ann"]
    second.store.firings.resume("Tidy")
    second.run_until(BEGIN + 20, step=1)
    assert second.slots(FiringState.STARTED) == [BEGIN + 20]


def test_agents_that_cannot_start_are_skipped_with_their_reason(server: Server) -> None:
    agent(server, "every: 10s", "enabled: false", name="off")
    agent(server, "every: 10s", name="keyless")
    server.fails["keyless"] = MissingKey("no key")
    server.loop.look()
    server.run_until(BEGIN + 10, step=1)
    assert sorted(server.reasons()) == ["disabled in agents/off.md", "no key"]
    assert next_fire(server.store.firings, server.registry().get("off").spec, server.clock.now) is None
    assert next_fire(server.store.firings, server.registry().get("keyless").spec, server.clock.now) == BEGIN + 20


def test_one_that_was_cut_between_its_firing_and_its_execution_is_started_by_the_next(server: Server) -> None:
    agent(server, "every: 10s")
    server.loop.look()
    server.clock.advance(10)
    Scheduler(server.store.firings, server.registry, server.clock).look()  # and the process dies
    assert [state for state in map(lambda f: f.state, server.store.firings.listed())] in (["due"], ["skipped"])
    second = server.again()
    second.loop.look()
    assert second.slots(FiringState.STARTED) == [BEGIN + 10]


def test_two_servers_that_look_at_once_start_each_slot_once(server: Server) -> None:
    agent(server, "every: 1m")
    server.loop.look()
    other = server.again()
    chance = random.Random(7)
    for _ in range(200):
        server.clock.advance(chance.random() * 20)
        for each in chance.sample([server, other], 2):
            each.loop.look()
        server.end_all()
    slots = server.slots()
    assert slots == [BEGIN + 60 * n for n in range(1, int((server.clock.now - BEGIN) // 60) + 1)]
    assert len(server.store.executions()) == len(server.slots(FiringState.STARTED))


def test_what_of_an_agent_that_has_gone_is_due_is_skipped(server: Server) -> None:
    agent(server, "every: 10s")
    server.loop.look()
    server.clock.advance(10)
    Scheduler(server.store.firings, server.registry, server.clock).look()
    (server.folder / "agents/tidy.md").unlink()
    server.loop.look()
    assert server.slots(FiringState.STARTED) == []
    assert 'there is no agent "tidy"' in server.reasons()[0]


def test_what_was_started_says_by_what(server: Server) -> None:
    agent(server, "every: 10s")
    server.loop.look()
    server.clock.advance(10)
    server.loop.look()
    (execution,) = server.store.executions()
    assert (execution.trigger, server.started) == (TriggerKind.SCHEDULE, 1)

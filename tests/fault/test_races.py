"""Several processes that decide the same thing at once: one wins, the others are told who won, the effect matches."""

from __future__ import annotations

import itertools
import json
import random
import time
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Request
from agent_md.executions.states import CallOutcome, Outcome, Status
from tests.support.processes import Finished, Running
from tests.support.waiting import until
from tests.support.world import World

ONE_CALL = """
conversations:
  - turns:
      - {calls: [{name: danger, args: {key: A}}]}
      - {text: End.}
"""

MANY = 20


@pytest.fixture
def one_call(world: World) -> World:
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(ONE_CALL)
    assert world.cli("run", "worker").code == 3
    return world


def _request(world: World) -> Request:
    store = world.store()
    try:
        return store.requests(ExecutionId(1))[0]
    finally:
        store.close()


def _check_one_winner(world: World, yes: list[Finished], no: list[Finished]) -> None:
    """The record, the exit codes and the effect say the same."""
    until(lambda: (status := world.status()) is not None and status.final)
    answer = _request(world).answer
    assert answer is not None
    won, lost = (yes, no) if answer.outcome is Outcome.APPROVED else (no, yes)
    assert all(ended.code == 0 for ended in won), won
    assert all(ended.code == 6 for ended in lost), lost
    for ended in lost:
        assert f"was {answer.outcome} by {answer.answered_by}" in ended.err
    assert world.effects()["A"] == (1 if answer.outcome is Outcome.APPROVED else 0)


def _ends(running: list[Running]) -> list[Finished]:
    return [process.wait() for process in running]


def test_twenty_answers_at_once(one_call: World) -> None:
    flags = ["--yes", "--no"] * (MANY // 2)
    running = [one_call.cli.start("respond", "1", flag) for flag in flags]
    ended = _ends(running)
    yes = [e for e, flag in zip(ended, flags, strict=True) if flag == "--yes"]
    no = [e for e, flag in zip(ended, flags, strict=True) if flag == "--no"]
    _check_one_winner(one_call, yes, no)


@pytest.mark.parametrize("order", [("--yes", "--no"), ("--no", "--yes")], ids=["yes first", "no first"])
def test_two_approvers(one_call: World, order: tuple[str, str]) -> None:
    running = {flag: one_call.cli.start("respond", "1", flag) for flag in order}
    ended = {flag: process.wait() for flag, process in running.items()}
    _check_one_winner(one_call, [ended["--yes"]], [ended["--no"]])


@pytest.mark.parametrize("kill_before", [None, 1, 3, 5, 7, 9])
def test_an_approval_against_a_cancel(one_call: World, kill_before: int | None) -> None:
    approving = one_call.cli.start("respond", "1", "--yes", kill_before_write=kill_before)
    cancelling = one_call.cli.start("cancel", "1")
    approved, cancelled = approving.wait(), cancelling.wait()
    assert cancelled.code == 0
    one_call.cli("resume", "--all")
    status = one_call.status()
    store = one_call.store()
    call = store.call(ExecutionId(1), Position(0, 0))
    store.close()
    answer = _request(one_call).answer
    assert answer is not None
    assert call is not None
    if answer.outcome is Outcome.CANCELLED:
        assert status is Status.ABORTED
        assert approved.code in (6, -9), approved
        assert one_call.effects()["A"] == 0
        assert call.outcome is CallOutcome.NOT_RUN
        return
    assert answer.outcome is Outcome.APPROVED
    assert status in (Status.SUCCESS, Status.ABORTED)
    happened = {CallOutcome.DONE: 1, CallOutcome.NOT_RUN: 0}
    assert call.outcome is CallOutcome.UNKNOWN or one_call.effects()["A"] == happened[call.outcome]


def test_an_approval_against_the_deadline(tmp_path: Path) -> None:
    for number in range(3):
        _check_deadline_race(World(tmp_path / f"deadline{number}"), offset=number * 0.06 - 0.12)


def _check_deadline_race(world: World, offset: float) -> None:
    agent = world.workspace / "agents/worker.md"
    agent.write_text(agent.read_text().replace("confirm: [danger]", "confirm: [danger]\nconfirm_timeout: 1s"))
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(ONE_CALL)
    assert world.cli("run", "worker").code == 3
    deadline = _request(world).expires_at
    assert deadline is not None
    until(lambda: time.time() >= deadline + offset)
    ended = _ends([world.cli.start("respond", "1", "--yes"), world.cli.start("respond", "1", "--yes")])
    until(lambda: time.time() > deadline)
    world.cli("pending")
    world.cli("resume", "--all")
    answer = _request(world).answer
    assert answer is not None
    assert world.status() is Status.SUCCESS
    if answer.outcome is Outcome.EXPIRED:
        assert answer.answered_by == "timeout"
        assert all(e.code == 6 and "expired at 20" in e.err for e in ended), ended
        assert world.effects()["A"] == 0
    else:
        assert answer.answered_at < deadline
        assert all(e.code == 0 for e in ended), ended
        assert world.effects()["A"] == 1


def test_the_same_answer_again_gives_the_same_result(one_call: World) -> None:
    first = one_call.cli("respond", "1", "--yes")
    again = one_call.cli("respond", "1", "--yes")
    assert (first.code, again.code) == (0, 0)
    assert one_call.effects()["A"] == 1
    different = one_call.cli("respond", "1", "--no")
    assert different.code == 6
    assert "approved by" in different.err


def _check_answered_in_order(world: World, order: tuple[str, ...]) -> None:
    """Answers in this order, each time with a process that is killed somewhere on its way."""
    assert world.cli("run", "worker").code == 3
    assert world.effects() == {"U": 1}
    by_key = {(r.tool_args or {})["key"]: r for r in world.open_requests()}
    assert len({r.id for r in by_key.values()}) == 3
    for key in order:
        ended = world.respond(by_key[key], kill_before_write=random.randint(8, 30))
        assert ended.code in (-9, 0, 3), ended
        still = {(r.tool_args or {}).get("key"): r.id for r in world.open_requests()}
        assert all(still[k] == by_key[k].id for k in still if k in by_key)
        if ended.killed:
            world.cli("resume", "--all")
    world.finish()
    world.check()


@pytest.mark.parametrize("order", list(itertools.permutations("ABC"))[:3])
def test_answered_in_any_order_with_a_kill_after_each(world: World, order: tuple[str, ...]) -> None:
    _check_answered_in_order(world, order)


@pytest.mark.stress
@pytest.mark.parametrize("order", list(itertools.permutations("ABC")))
@pytest.mark.parametrize("round_", range(5))
def test_answered_in_every_order_with_kills(world: World, order: tuple[str, ...], round_: int) -> None:
    _check_answered_in_order(world, order)


def test_two_processes_that_resume_at_once_drive_once(world: World) -> None:
    assert world.cli("run", "worker", kill_before_write=40).killed
    ended = _ends([world.cli.start("resume", "--all") for _ in range(4)])
    assert all(e.code in (0, 3) for e in ended), ended
    world.finish()
    world.check()


def test_runs_of_one_conversation_at_once(world: World) -> None:
    ended = _ends([world.cli.start("run", "worker", "--json") for _ in range(4)])
    created = [json.loads(e.out.splitlines()[0])["execution_id"] for e in ended if e.code == 3]
    refused = [e for e in ended if e.code == 2]
    assert len(created) == len(set(created)) >= 1
    assert len(created) + len(refused) == 4
    assert all("already waits for a human" in e.err for e in refused)
    late = world.cli("run", "worker")
    assert late.code == 2
    assert "agentmd respond" in late.err

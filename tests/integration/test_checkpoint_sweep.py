"""Clearing up checkpoints: what goes, what stays, and that whoever goes on meanwhile or afterwards notices nothing."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from agent_md.executions.thread_names import owner_of, thread_id
from agent_md.runner.retention_sweep import Threads
from agent_md.stores.checkpoint_cleanup import ThreadFile
from tests.support.driving import Sink, Workspace, call, turn
from tests.support.many_executions import age, copy_execution, dump_executions, thread_names

DAYS = 30


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    made = Workspace(tmp_path / "ws")
    made.tools("")
    made.agent("tools: [kit]\nconfirm: [danger]\non_pending: parallel")
    yield made
    made.close()


def state(work: Workspace) -> Path:
    return work.folder / ".agentmd"


def owners(work: Workspace) -> set[int | None]:
    return {owner_of(name) for name in thread_names(state(work))}


def waiting(work: Workspace, key: str = "A") -> Execution:
    work.script(turn(call("plain", key=f"{key}-before"), call("danger", key=key)), "Done.")
    return work.start()


def ended(work: Workspace, **options: object) -> Execution:
    work.script(turn(call("plain", key="plain")), "Done.")
    return work.start(**options)


def failing(work: Workspace) -> Execution:
    work.script(turn(error={"kind": "bad_request"}))
    failed = work.start()
    assert failed.status is Status.ERROR
    return failed


def test_old_threads_go_but_those_of_young_ones_and_of_what_has_not_ended(work: Workspace) -> None:
    old, in_session, failed = ended(work), ended(work, session_id="s"), failing(work)
    waits = waiting(work)
    age(state(work), DAYS + 1)
    young = ended(work, session_id="s")
    assert owners(work) == {old.id, in_session.id, failed.id, waits.id, young.id}
    purged = work.app.retention.threads().purge(DAYS)
    assert owners(work) == {waits.id, young.id}
    assert (purged.removed, purged.kept, purged.driven) == (3, 2, ())


def test_the_latest_without_a_session_stays_however_old_it_is(work: Workspace) -> None:
    first, latest = ended(work), ended(work)
    age(state(work), 10_000)
    assert work.app.retention.threads().purge(1).removed == 1
    assert owners(work) == {latest.id}
    assert first.id not in owners(work)


def test_nothing_is_old_where_the_sweep_is_off_or_the_time_has_not_come(work: Workspace) -> None:
    ended(work), ended(work)
    age(state(work), DAYS - 1)
    before = thread_names(state(work))
    assert work.app.retention.threads().purge(None).removed == 0
    assert work.app.retention.threads().purge(DAYS).removed == 0
    assert thread_names(state(work)) == before


def test_threads_of_no_execution_go(work: Workspace) -> None:
    kept = ended(work)
    with closing(sqlite3.connect(state(work) / "agentmd_checkpoints.db")) as file, file:
        for name in ("1@12.5", "77@1.0", "something else"):
            file.execute(
                "INSERT INTO writes (thread_id, checkpoint_id, task_id, idx, channel) VALUES (?, 'c', 't', 0, 'x')",
                (name,),
            )
    assert work.app.retention.threads().purge(None).removed == 3
    assert thread_names(state(work)) == {thread_id(kept)}


@pytest.mark.parametrize("approved", [True, False])
def test_with_force_what_waits_loses_its_thread_and_goes_on_from_the_store(work: Workspace, approved: bool) -> None:
    waits = waiting(work)
    purged = work.app.retention.threads().purge(DAYS, force=True)
    assert (purged.removed, purged.kept, purged.driven) == (1, 0, ())
    assert thread_names(state(work)) == set()
    work.restart()
    assert work.execution.status is Status.WAITING
    assert work.answer(response={"approved": approved}).status is Status.SUCCESS
    assert work.execution.id == waits.id
    assert work.effects() == Counter({"A-before": 1, "A": 1} if approved else {"A-before": 1})
    work.check_succeeded()


def test_with_force_what_is_driven_is_left_and_named(work: Workspace) -> None:
    ended(work)
    work.script(turn(call("plain", key="B")), turn(text="Late.", delay="60s"))
    driven = work.create()

    async def purge_while_it_runs() -> None:
        driving = asyncio.create_task(work.advance(driven, Sink()))
        while not work.effects()["B"]:
            await asyncio.sleep(0.01)
        purged = work.app.retention.threads().purge(DAYS, force=True)
        assert purged.driven == (driven.execution_id,)
        assert (purged.removed, purged.kept) == (1, 1)
        assert owners(work) == {driven.execution_id}
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)

    asyncio.run(purge_while_it_runs())
    assert work.app.retention.threads().purge(DAYS, force=True).driven == ()
    assert owners(work) == set()


def test_only_the_threads_of_one_agent_go(work: Workspace) -> None:
    ended(work), ended(work)
    age(state(work), DAYS + 1)
    assert work.app.retention.threads().purge(DAYS, agents=["other"]).removed == 0
    stats = work.app.retention.threads().stats(["worker"])
    assert ([row.agent for row in stats.agents], stats.threads) == (["worker"], 2)
    assert work.app.retention.threads().stats(["other"]).agents == ()
    assert work.app.retention.threads().purge(DAYS, agents=["worker"]).removed == 1


def test_a_purge_that_is_cut_anywhere_leaves_what_the_next_one_ends(work: Workspace) -> None:
    """Each pause between two transactions is the last in turn, as a kill there would make it."""
    waits = waiting(work)
    for cut_at in range(50):
        pauses = 0

        def rest(_: float, cut_at: int = cut_at) -> bool:
            nonlocal pauses
            pauses += 1
            if pauses > cut_at:
                raise InterruptedError
            return False

        file = ThreadFile(work.app.settings.checkpoint_database, tell=pytest.fail, rest=rest)
        try:
            Threads(work.app.store, file, time.time).purge(DAYS, force=True)
        except InterruptedError:
            work.restart()
            continue
        break
    else:
        pytest.fail("it never came to its end")
    assert cut_at > 0
    assert thread_names(state(work)) == set()
    assert work.answer().status is Status.SUCCESS
    assert (work.execution.id, work.effects()) == (waits.id, Counter({"A-before": 1, "A": 1}))


def test_a_thread_of_which_the_newest_part_is_gone_repeats_nothing(work: Workspace) -> None:
    """What a removal leaves when it is cut within one long thread."""
    waiting(work)
    with closing(sqlite3.connect(state(work) / "agentmd_checkpoints.db")) as file:
        total = file.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
    assert total > 1
    for _ in range(total):
        with closing(sqlite3.connect(state(work) / "agentmd_checkpoints.db")) as file, file:
            row, checkpoint = file.execute(
                "SELECT rowid, checkpoint_id FROM checkpoints ORDER BY rowid DESC"
            ).fetchone()
            file.execute("DELETE FROM writes WHERE checkpoint_id = ?", (checkpoint,))
            file.execute("DELETE FROM checkpoints WHERE rowid = ?", (row,))
            (left,) = file.execute("SELECT count(*) FROM checkpoints").fetchone()
        if left == total // 2:
            break
    work.restart()
    assert work.answer().status is Status.SUCCESS
    assert work.effects() == Counter({"A-before": 1, "A": 1})


def test_a_purge_stops_between_two_transactions_when_it_is_told_to(work: Workspace) -> None:
    ended(work), ended(work), ended(work)
    age(state(work), DAYS + 1)
    stop = threading.Event()
    stop.set()
    purged = work.app.retention.threads(stop.wait).purge(DAYS)
    assert purged.bytes_after > 0
    assert work.app.retention.threads().purge(DAYS).kept == 1
    assert len(owners(work)) == 1


@pytest.mark.parametrize(("finished", "waits"), [(1000, 5), pytest.param(10_000, 50, marks=pytest.mark.stress)])
def test_many_are_removed_while_others_are_answered(work: Workspace, finished: int, waits: int) -> None:
    first = ended(work)
    copy_execution(state(work), first.id, finished - 1)
    age(state(work), DAYS + 1)
    asked = [waiting(work, f"w{n}") for n in range(waits)]
    before = dump_executions(state(work), finished)
    began = threading.Event()

    def rest(seconds: float) -> None:
        began.set()
        time.sleep(seconds)

    purged: list[object] = []

    def purge() -> None:
        file = ThreadFile(work.app.settings.checkpoint_database, tell=pytest.fail, rest=rest)
        purged.append(Threads(work.app.store, file, time.time).purge(DAYS))

    size = ThreadFile(work.app.settings.checkpoint_database, tell=pytest.fail).size()
    thread = threading.Thread(target=purge)
    thread.start()
    assert began.wait(60)
    for execution in asked:
        (request,) = [r for r in work.app.store.requests(execution.id) if r.open]
        answer = work.app.responder.new_answer(execution, request, {"approved": True})
        receipt = work.app.store.record_answers([answer], by="cli:ann", claim_for=work.app.worker)
        assert receipt.claim is not None
        assert work.drive(receipt.claim).status is Status.SUCCESS
    thread.join(120)
    assert purged
    assert owners(work) == {x.id for x in asked}
    assert work.effects() == Counter(
        {"plain": 1} | {f"w{n}{part}": 1 for n in range(waits) for part in ("", "-before")}
    )
    assert dump_executions(state(work), finished) == before
    work.app.retention.threads().purge(DAYS)
    assert ThreadFile(work.app.settings.checkpoint_database, tell=pytest.fail).size() < size / 5 + 1_000_000
    assert work.app.store.execution(ExecutionId(finished)).status is Status.SUCCESS

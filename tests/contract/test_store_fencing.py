"""Any store: who may write."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from agent_md.errors import ClaimLost
from agent_md.executions.execution import Claim
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import CallEffect
from agent_md.executions.states import CallState
from agent_md.ports.journal import Journal
from agent_md.ports.store import Store
from tests.support.scenes import (
    FIRST,
    W1,
    abort,
    ask,
    begin,
    finish_call,
    gate_request,
    journal_of,
    record,
    snapshot,
    succeed,
    taken_over,
    types_of,
)
from tests.support.workers import FakeWorkers

WRITES: dict[str, Callable[[Journal], Any]] = {
    "record_model_step": lambda journal: ask(journal, turn=5),
    "record_model_step again": lambda journal: ask(journal, turn=0),
    "start_call": lambda journal: journal.start_call(FIRST, {"path": "other"}, CallEffect("a", "b")),
    "pause_call": lambda journal: journal.pause_call(FIRST, [gate_request(journal, id=RequestId("late"))]),
    "finish_call": finish_call,
    "begin_step": lambda journal: journal.begin_step(FIRST, 1, "late"),
    "end_step": lambda journal: journal.end_step(FIRST, 0, "late", None),
    "park": lambda journal: journal.park([]),
    "park with an answer": lambda journal: journal.park([frozenset()]),
    "release": lambda journal: journal.release(),
    "put_back": lambda journal: journal.put_back(FIRST, CallState.PROPOSED),
    "begin": lambda journal: journal.begin("model call 5"),
    "count_attempt": lambda journal: journal.count_attempt(),
    "finish": succeed,
}


every_write = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())


def in_the_middle(store: Store) -> Journal:
    """Of an execution with a guarded, started call and an open step."""
    journal = journal_of(store, begin(store))
    ask(journal)
    journal.start_call(FIRST, {"path": "a.md"}, None)
    journal.begin_step(FIRST, 0, "send")
    return journal


class TestFencing:
    """A driver that lost its execution writes nothing."""

    @every_write
    def test_not_after_another_took_over(
        self, store: Store, workers: FakeWorkers, write: Callable[[Journal], Any]
    ) -> None:
        old = in_the_middle(store)
        taken_over(store, workers, old)
        before = snapshot(store, old.claim.execution_id)
        with pytest.raises(ClaimLost):
            write(old)
        assert snapshot(store, old.claim.execution_id) == before

    @every_write
    def test_not_after_the_same_worker_took_it_again(self, store: Store, write: Callable[[Journal], Any]) -> None:
        old = in_the_middle(store)
        old.release()
        assert store.claim(old.claim.execution_id, W1) is not None
        before = snapshot(store, old.claim.execution_id)
        with pytest.raises(ClaimLost):
            write(old)
        assert snapshot(store, old.claim.execution_id) == before

    @every_write
    @pytest.mark.parametrize(
        "leave",
        [lambda j: j.release(), lambda j: j.park([]), succeed, abort],
        ids=["queued", "waiting", "success", "aborted"],
    )
    def test_not_unless_it_is_running(
        self, store: Store, leave: Callable[[Journal], Any], write: Callable[[Journal], Any]
    ) -> None:
        journal = in_the_middle(store)
        leave(journal)
        before = snapshot(store, journal.claim.execution_id)
        with pytest.raises(ClaimLost):
            write(journal)
        assert snapshot(store, journal.claim.execution_id) == before

    @every_write
    def test_not_in_a_process_that_was_forked(self, store: Store, write: Callable[[Journal], Any]) -> None:
        journal = in_the_middle(store)
        before = snapshot(store, journal.claim.execution_id)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                write(journal)
            except ClaimLost:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert snapshot(store, journal.claim.execution_id) == before

    def test_an_epoch_that_was_never_given_writes_nothing(self, store: Store) -> None:
        execution = begin(store)
        with pytest.raises(ClaimLost):
            record(store.journal(Claim(execution.id, W1, 2)))
        assert types_of(store, execution.id) == ["system", "human"]

    def test_the_new_driver_writes(self, store: Store, workers: FakeWorkers) -> None:
        old = in_the_middle(store)
        new = taken_over(store, workers, old)
        finish_call(new)
        call = store.call(old.claim.execution_id, FIRST)
        assert call is not None
        assert call.state is CallState.FINISHED

    def test_it_knows_its_claim(self, store: Store) -> None:
        execution = begin(store)
        claim = Claim(execution.id, W1, 1)
        assert store.journal(claim).claim == claim

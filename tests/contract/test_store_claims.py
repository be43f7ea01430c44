"""Any store: who drives an execution, and how it is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_md.errors import UnknownExecution
from agent_md.executions.execution import Claim
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Outcome, Status
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    W1,
    W2,
    abort,
    begin,
    journal_of,
    parked,
    record,
    snapshot,
    succeed,
    types_of,
)
from tests.support.workers import FakeWorkers

NOBODY = ExecutionId(4711)


class TestClaim:
    def test_a_queued_one_is_taken(self, store: Store, clock: ManualClock) -> None:
        queued = begin(store, worker=None)
        clock.advance(5)
        assert store.claim(queued.id, W1) == Claim(queued.id, W1, 1)
        taken = store.execution(queued.id)
        assert (taken.status, taken.worker, taken.epoch) == (Status.RUNNING, W1, 1)
        assert taken.started_at == clock.now

    def test_one_of_a_dead_worker_is_taken_with_the_next_epoch(
        self, store: Store, workers: FakeWorkers, clock: ManualClock
    ) -> None:
        running = begin(store, worker=W1)
        workers.kill(W1)
        clock.advance(5)
        assert store.claim(running.id, W2) == Claim(running.id, W2, 2)
        taken = store.execution(running.id)
        assert (taken.status, taken.worker, taken.epoch) == (Status.RUNNING, W2, 2)
        assert taken.started_at == running.started_at

    def test_one_of_a_live_worker_is_not_taken(self, store: Store) -> None:
        running = begin(store, worker=W1)
        assert store.claim(running.id, W2) is None
        assert store.execution(running.id) == running

    def test_the_holder_does_not_take_it_twice(self, store: Store) -> None:
        running = begin(store, worker=W1)
        assert store.claim(running.id, W1) is None

    def test_a_waiting_one_is_taken_when_it_is_to_be_cancelled(self, store: Store) -> None:
        waiting, _ = parked(store)
        assert store.abandoned() == []
        assert store.claim(waiting.id, W2) is None
        to_cancel = store.request_cancel(waiting.id, "cli:me")
        assert store.abandoned() == [to_cancel]
        assert store.claim(waiting.id, W2) == Claim(waiting.id, W2, waiting.epoch + 1)
        assert store.abandoned() == []

    def test_a_waiting_one_is_not_taken(self, store: Store, workers: FakeWorkers) -> None:
        waiting, _ = parked(store)
        workers.kill(W1)
        assert store.claim(waiting.id, W2) is None
        assert store.execution(waiting.id) == waiting

    @pytest.mark.parametrize("end", [succeed, abort])
    def test_an_ended_one_is_not_taken(self, store: Store, workers: FakeWorkers, end: Callable[..., None]) -> None:
        execution = begin(store)
        end(journal_of(store, execution))
        workers.kill(W1)
        before = store.execution(execution.id)
        assert store.claim(execution.id, W2) is None
        assert store.execution(execution.id) == before

    def test_an_unknown_one(self, store: Store) -> None:
        with pytest.raises(UnknownExecution):
            store.claim(NOBODY, W1)

    def test_first_come_first_served(self, store: Store) -> None:
        queued = begin(store, worker=None)
        assert store.claim(queued.id, W1) is not None
        assert store.claim(queued.id, W2) is None

    def test_a_claim_stores_no_event(self, store: Store) -> None:
        execution = begin(store, worker=None)
        store.claim(execution.id, W1)
        assert types_of(store, execution.id) == ["system", "human"]


class TestAbandoned:
    def test_queued_and_those_of_dead_workers_oldest_first(self, store: Store, workers: FakeWorkers) -> None:
        dead = begin(store, worker=workers.start("short-lived"))
        queued = begin(store, worker=None)
        also_dead = begin(store, worker=workers.start("short-lived"))
        begin(store, worker=W1)
        workers.kill("short-lived")
        assert [execution.id for execution in store.abandoned()] == [dead.id, queued.id, also_dead.id]

    def test_waiting_and_ended_ones_are_not(self, store: Store, workers: FakeWorkers) -> None:
        parked(store)
        ended = begin(store)
        succeed(journal_of(store, ended))
        workers.kill(W1)
        assert store.abandoned() == []

    def test_all_of_them_can_be_claimed(self, store: Store, workers: FakeWorkers) -> None:
        begin(store, worker=W1)
        begin(store, worker=None)
        workers.kill(W1)
        assert all(store.claim(execution.id, W2) for execution in store.abandoned())
        assert store.abandoned() == []


class TestCancel:
    @pytest.mark.parametrize("worker", [None, W1])
    def test_the_wish_is_noted_and_nothing_else(self, store: Store, worker: Any) -> None:
        before = begin(store, worker=worker)
        after = store.request_cancel(before.id, "cli:me")
        assert (after.cancelled_by, after.status, after.worker) == ("cli:me", before.status, before.worker)
        assert store.execution(before.id) == after

    def test_of_a_waiting_one(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        after = store.request_cancel(waiting.id, "api")
        assert (after.status, after.cancelled_by) == (Status.WAITING, "api")
        assert store.request(asked).open

    def test_the_first_to_ask_is_kept(self, store: Store) -> None:
        execution = begin(store)
        store.request_cancel(execution.id, "first")
        assert store.request_cancel(execution.id, "second").cancelled_by == "first"

    def test_an_ended_one_is_left_alone(self, store: Store) -> None:
        execution = begin(store)
        succeed(journal_of(store, execution))
        before = store.execution(execution.id)
        assert store.request_cancel(execution.id, "me") == before
        assert store.execution(execution.id) == before

    def test_an_unknown_one(self, store: Store) -> None:
        with pytest.raises(UnknownExecution):
            store.request_cancel(NOBODY, "me")

    def test_the_driver_goes_on_writing(self, store: Store) -> None:
        execution = begin(store)
        journal = journal_of(store, execution)
        store.request_cancel(execution.id, "me")
        record(journal)
        abort(journal, "me")
        assert store.execution(execution.id).status is Status.ABORTED


class TestClaimToCancel:
    def test_a_waiting_one_is_taken_with_the_next_epoch(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        assert store.claim_to_cancel(waiting.id, W2) == Claim(waiting.id, W2, waiting.epoch + 1)
        taken = store.execution(waiting.id)
        assert (taken.status, taken.worker) == (Status.RUNNING, W2)
        assert store.request(asked).open

    def test_what_was_taken_can_be_closed(self, store: Store) -> None:
        waiting, [asked] = parked(store)
        claim = store.claim_to_cancel(waiting.id, W2)
        assert claim is not None
        abort(store.journal(claim), "cli:me")
        answer = store.request(asked).answer
        assert answer is not None
        assert (answer.outcome, answer.answered_by) == (Outcome.CANCELLED, "cli:me")
        assert store.execution(waiting.id).status is Status.ABORTED

    def test_a_queued_one_is_taken(self, store: Store) -> None:
        queued = begin(store, worker=None)
        assert store.claim_to_cancel(queued.id, W2) == Claim(queued.id, W2, 1)

    def test_one_of_a_dead_worker_is_taken(self, store: Store, workers: FakeWorkers) -> None:
        running = begin(store, worker=W1)
        workers.kill(W1)
        assert store.claim_to_cancel(running.id, W2) == Claim(running.id, W2, 2)

    def test_one_of_a_live_worker_is_not(self, store: Store) -> None:
        running = begin(store, worker=W1)
        assert store.claim_to_cancel(running.id, W2) is None
        assert store.execution(running.id) == running

    def test_an_ended_one_is_not(self, store: Store) -> None:
        execution = begin(store)
        succeed(journal_of(store, execution))
        before = snapshot(store, execution.id)
        assert store.claim_to_cancel(execution.id, W2) is None
        assert snapshot(store, execution.id) == before

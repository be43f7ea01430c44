"""Any store: what the death of a worker means for what it drove, which attempts count, and the time of killed work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agent_md.executions.execution import Execution
from agent_md.executions.ids import WorkerId
from agent_md.executions.positions import BETWEEN, Position, place_of_turn
from agent_md.executions.states import CallState, Status
from agent_md.ports.journal import Journal
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    FIRST,
    W1,
    W2,
    approve,
    begin,
    finish_call,
    gate_request,
    journal_of,
    parked,
    proposal,
    record,
    succeed,
    taken_over,
)
from tests.support.workers import FakeWorkers

ASKED = place_of_turn(0)


@pytest.fixture
def working() -> ManualClock:
    """How long workers work; nothing passes by itself."""
    return ManualClock()


@pytest.fixture
def workers(working: ManualClock) -> FakeWorkers:
    return FakeWorkers(W1, W2, monotonic=working)


def now(store: Store, of: Journal | Execution) -> Execution:
    return store.execution(of.claim.execution_id if not isinstance(of, Execution) else of.id)


def in_flight(store: Store, place: str = BETWEEN) -> Journal:
    """Of a new execution that W1 drives, with this begun."""
    journal = journal_of(store, begin(store))
    journal.begin(place)
    return journal


def die(store: Store, workers: FakeWorkers, worker: str = W1, *, by_order: bool = False) -> None:
    workers.kill(worker, by_order=by_order)
    store.settle_deaths()


def begin_step(journal: Journal) -> None:
    journal.start_call(FIRST, {}, None)
    journal.begin_step(FIRST, 0, "send")


class TestDeaths:
    def test_what_a_dead_worker_drove_is_queued(self, store: Store, workers: FakeWorkers) -> None:
        journal, other = in_flight(store), begin(store, worker=W2)
        die(store, workers)
        after = now(store, journal)
        assert (after.status, after.worker, after.epoch) == (Status.QUEUED, None, 1)
        assert store.execution(other.id) == other

    def test_a_claim_settles_them_first(self, store: Store, workers: FakeWorkers) -> None:
        one, other = in_flight(store), in_flight(store)
        workers.kill(W1)
        assert store.claim(one.claim.execution_id, W2) is not None
        assert now(store, other).status is Status.QUEUED
        assert now(store, one).suspect
        assert now(store, other).suspect

    def test_a_claim_alone_is_nothing_in_flight(self, store: Store, workers: FakeWorkers) -> None:
        execution = begin(store)
        die(store, workers)
        assert (now(store, execution).attempts, now(store, execution).suspect) == (0, False)

    def test_fifty_deaths_before_anything_began_count_nothing(self, store: Store, workers: FakeWorkers) -> None:
        execution = begin(store, worker=None)
        for number in range(50):
            worker = workers.start(f"w{number}")
            assert store.claim(execution.id, worker) is not None
            workers.kill(worker)
        store.settle_deaths()
        assert (now(store, execution).attempts, now(store, execution).suspect) == (0, False)

    @pytest.mark.parametrize("place", [BETWEEN, ASKED])
    def test_the_only_one_in_flight_has_an_attempt_at_its_place(
        self, store: Store, workers: FakeWorkers, place: str
    ) -> None:
        journal, idle = in_flight(store, place), begin(store)
        die(store, workers)
        after = now(store, journal)
        assert (after.attempts, after.attempted, after.suspect) == (1, place, True)
        assert (now(store, idle).attempts, now(store, idle).suspect) == (0, False)

    def test_a_started_call_is_its_own_place(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store)
        record(journal, calls=[proposal(), proposal(0, 1)])
        journal.start_call(Position(0, 1), {}, None)
        die(store, workers)
        assert now(store, journal).attempted == "call 0.1 (file_read)"

    def test_a_call_that_was_put_back_is_not_in_flight(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store)
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {}, None)
        journal.put_back(FIRST, CallState.PROPOSED)
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert call.state is CallState.PROPOSED
        die(store, workers)
        assert now(store, journal).attempted == BETWEEN

    def test_a_call_that_an_earlier_drive_started_is_not(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store)
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {}, None)
        journal.release()
        claim = store.claim(journal.claim.execution_id, W1)
        assert claim is not None
        store.journal(claim).begin(BETWEEN)
        die(store, workers)
        assert now(store, journal).attempted == BETWEEN

    def test_several_in_flight_are_suspects_without_an_attempt(self, store: Store, workers: FakeWorkers) -> None:
        journals, idle = [in_flight(store) for _ in range(3)], begin(store)
        die(store, workers)
        assert [(now(store, j).attempts, now(store, j).suspect) for j in journals] == [(0, True)] * 3
        assert not now(store, idle).suspect

    def test_an_end_by_order_is_counted_against_nobody(self, store: Store, workers: FakeWorkers) -> None:
        one = in_flight(store)
        die(store, workers, by_order=True)
        assert (now(store, one).status, now(store, one).attempts, now(store, one).suspect) == (Status.QUEUED, 0, False)

    def test_a_suspect_stays_one_over_other_drives(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store)
        new = taken_over(store, workers, journal)
        assert now(store, journal).suspect
        new.begin(BETWEEN)
        new.release()
        assert (now(store, journal).suspect, now(store, journal).attempts) == (True, 1)

    def test_a_suspect_is_not_claimed_by_who_does_not_want_one(self, store: Store, workers: FakeWorkers) -> None:
        journal, other = in_flight(store), begin(store)
        workers.kill(W1)
        assert store.claim(journal.claim.execution_id, W2, suspects=False) is None
        assert store.claim_to_cancel(journal.claim.execution_id, W2, suspects=False) is None
        assert now(store, journal).status is Status.QUEUED
        assert store.claim(other.id, W2, suspects=False) is not None
        assert store.claim(journal.claim.execution_id, W2) is not None


class TestAttempts:
    """How often in a row a drive ended at the same place without a new stored row."""

    @pytest.fixture
    def third(self, store: Store, workers: FakeWorkers) -> Journal:
        """Of the third drive; the two before it died between its calls."""
        journal = in_flight(store)
        record(journal, calls=[proposal()])
        for number in range(2):
            journal = taken_over(store, workers, journal, WorkerId(f"w{number}"))
            journal.begin(BETWEEN)
        assert (now(store, journal).attempts, now(store, journal).suspect) == (2, True)
        return journal

    @pytest.mark.parametrize(
        "write",
        [
            lambda journal: record(journal, 1),
            lambda journal: journal.pause_call(FIRST, [gate_request(journal)]),
            finish_call,
            lambda journal: journal.park([]),
            succeed,
            lambda journal: (begin_step(journal), journal.end_step(FIRST, 0, "sent", None)),
        ],
        ids=["record_model_step", "pause_call", "finish_call", "park", "finish", "end_step"],
    )
    def test_a_new_row_clears_them(self, store: Store, third: Journal, write: Callable[[Journal], Any]) -> None:
        write(third)
        after = now(store, third)
        assert (after.attempts, after.attempted, after.suspect) == (0, None, False)

    @pytest.mark.parametrize(
        "write",
        [
            lambda journal: record(journal, 0),
            lambda journal: journal.start_call(FIRST, {}, None),
            lambda journal: journal.begin(place_of_turn(1)),
            lambda journal: begin_step(journal),
            lambda journal: journal.release(),
        ],
        ids=["a turn that is there", "start_call", "begin", "begin_step", "release"],
    )
    def test_nothing_else_does(self, store: Store, third: Journal, write: Callable[[Journal], Any]) -> None:
        write(third)
        after = now(store, third)
        assert (after.attempts, after.attempted, after.suspect) == (2, BETWEEN, True)

    def test_a_request_that_is_there_does_not(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store)
        record(journal, calls=[proposal()])
        request = gate_request(journal)
        journal.pause_call(FIRST, [request])
        new = taken_over(store, workers, journal)
        new.pause_call(FIRST, [request])
        assert now(store, new).attempts == 1

    def test_each_place_has_its_own(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store, BETWEEN)
        counts = []
        for number, place in enumerate([ASKED, BETWEEN, ASKED, ASKED]):
            journal = taken_over(store, workers, journal, WorkerId(f"w{number}"))
            counts.append((now(store, journal).attempts, now(store, journal).attempted))
            journal.begin(place)
        die(store, workers, journal.claim.worker)
        counts.append((now(store, journal).attempts, now(store, journal).attempted))
        assert [number for number, _ in counts] == [1, 1, 2, 2, 3]
        assert counts[2][1] == BETWEEN
        assert counts[-1] == (3, ASKED)

    def test_one_that_raised_is_counted_where_it_was(self, store: Store) -> None:
        journal = in_flight(store, ASKED)
        assert journal.count_attempt() == (ASKED, 1)
        assert journal.count_attempt() == (ASKED, 2)
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, {}, None)
        assert journal.count_attempt() == ("call 0.0 (file_read)", 1)
        assert (now(store, journal).attempts, now(store, journal).suspect) == (1, False)

    def test_an_answer_comes_to_a_clean_execution(self, store: Store, workers: FakeWorkers) -> None:
        waiting, [asked] = parked(store)
        receipt = store.record_answers([approve(asked)], by="me", claim_for=W2)
        assert receipt.claim is not None
        die(store, workers, W2)
        assert (now(store, waiting).attempts, now(store, waiting).suspect) == (0, False)


class TestTimeOfWork:
    def test_what_a_killed_drive_worked_is_counted_to_its_last_sign_of_life(
        self, store: Store, workers: FakeWorkers, working: ManualClock, clock: ManualClock
    ) -> None:
        journal = in_flight(store)
        working.advance(2.5)
        assert journal.worked_ms() == 2500  # the sign of life
        working.advance(0.1)
        workers.kill(W1)
        working.advance(3600)
        clock.advance(86_400)
        store.settle_deaths()
        assert now(store, journal).work_ms == 2500

    def test_it_adds_up_over_drives_and_writes(self, store: Store, workers: FakeWorkers, working: ManualClock) -> None:
        journal = in_flight(store)
        working.advance(1)
        record(journal)
        working.advance(2)
        journal.worked_ms()
        working.advance(60)  # in which nobody works
        new = taken_over(store, workers, journal)
        new.begin(BETWEEN)
        working.advance(0.5)
        assert new.worked_ms() == 500
        new.release()
        assert now(store, journal).work_ms == 3500

    def test_before_anything_began_nothing_is_counted(
        self, store: Store, workers: FakeWorkers, working: ManualClock
    ) -> None:
        execution = begin(store)
        journal = journal_of(store, execution)
        working.advance(2)
        journal.worked_ms()
        die(store, workers)
        assert now(store, execution).work_ms == 0

    def test_each_execution_of_a_worker_has_its_own(
        self, store: Store, workers: FakeWorkers, working: ManualClock
    ) -> None:
        first = in_flight(store)
        working.advance(1)
        second = in_flight(store)
        working.advance(1)
        second.worked_ms()
        die(store, workers)
        assert (now(store, first).work_ms, now(store, second).work_ms) == (2000, 1000)


class TestDeadWorkers:
    def test_those_that_drove_nothing_are_forgotten_by_the_next(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store)
        succeed(journal)
        workers.kill(W1)
        store.register_worker(W2, 2)
        assert workers.forgotten == {W1}

    def test_they_are_forgotten_when_what_they_drove_was_taken_over(self, store: Store, workers: FakeWorkers) -> None:
        journal = in_flight(store)
        store.register_worker(W1, 1)
        workers.kill(W1)
        store.register_worker(W2, 2)
        assert workers.forgotten == set()
        store.settle_deaths()
        assert workers.forgotten == {W1}
        assert now(store, journal).suspect

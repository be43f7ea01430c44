"""Any store: many threads over two connections at once; exactly one of them wins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import pytest

from agent_md.errors import AnswerConflict, AnswerRetracted, ClaimLost, ConversationWaiting, NotRetractable
from agent_md.executions.execution import Claim
from agent_md.executions.ids import RequestId, WorkerId
from agent_md.executions.requests import Answer
from agent_md.executions.states import Outcome, Status
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import FIRST, W1, approve, ask, begin, deny, journal_of, parked, record, succeed, types_of
from tests.support.workers import FakeWorkers

RACERS = 20
T = TypeVar("T")


def race(run: Callable[[int], T]) -> list[T]:
    """Lets all racers start at the same moment; their results, or the agentmd error of each."""
    barrier = Barrier(RACERS)

    def one(number: int) -> T:
        barrier.wait()
        return run(number)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(one, range(RACERS)))


@pytest.fixture
def stores(connect: Callable[[], Store]) -> list[Store]:
    """Two connections to one storage."""
    return [connect(), connect()]


def wins(results: list[Any]) -> list[Any]:
    return [result for result in results if result is not None]


class TestRaces:
    def test_one_answer_wins(self, stores: list[Store]) -> None:
        waiting, [asked] = parked(stores[0])

        def respond(number: int) -> tuple[bool, Answer] | AnswerConflict:
            answer = approve(asked) if number % 4 < 2 else deny(asked)
            try:
                receipt = stores[number % 2].record_answers([answer], by=f"racer-{number}")
            except AnswerConflict as conflict:
                return conflict
            return receipt.recorded, receipt.answers[0]

        results = race(respond)
        stored = stores[0].request(asked).answer
        assert stored is not None
        same = [result for result in results if not isinstance(result, AnswerConflict)]
        conflicts = [result for result in results if isinstance(result, AnswerConflict)]
        assert [recorded for recorded, _ in same].count(True) == 1
        assert {answer.answered_by for _, answer in same} == {stored.answered_by}
        assert (len(same), len(conflicts)) == (10, 10)
        assert {(c.outcome, c.answered_by) for c in conflicts} == {(stored.outcome, stored.answered_by)}
        assert types_of(stores[0], waiting.id).count("resumed") == 1

    def test_a_retraction_and_the_start_of_the_call_cannot_both_happen(self, stores: list[Store]) -> None:
        journal = journal_of(stores[0], begin(stores[0]))
        [asked] = ask(journal)
        stores[0].record_answers([approve(asked)], by="me")

        def start_or_retract(number: int) -> str:
            try:
                if number == RACERS // 2:
                    journal.start_call(FIRST, {"path": "a.md"}, None, answered=[asked])
                    return "started"
                stores[1].retract(asked, by=f"racer-{number}")
            except (AnswerRetracted, NotRetractable) as lost:
                return type(lost).__name__
            return "retracted"

        results = Counter(race(start_or_retract))
        assert results in (
            {"started": 1, "NotRetractable": RACERS - 1},
            {"AnswerRetracted": 1, "retracted": RACERS - 1},
        )
        execution_id = journal.claim.execution_id
        assert types_of(stores[0], execution_id).count("retracted") == int("retracted" in results)
        assert len(stores[0].open_requests()) == int("retracted" in results)

    def test_one_recorder_takes_the_execution(self, stores: list[Store]) -> None:
        waiting, ids = parked(stores[0], count=RACERS)

        def respond(number: int) -> Claim | None:
            receipt = stores[number % 2].record_answers(
                [approve(ids[number])], by="me", claim_for=WorkerId(f"racer-{number}")
            )
            assert receipt.recorded
            return receipt.claim

        [claim] = wins(race(respond))
        execution = stores[0].execution(waiting.id)
        assert (execution.status, execution.worker, execution.epoch) == (Status.RUNNING, claim.worker, claim.epoch)
        assert not stores[0].open_requests()

    @pytest.mark.parametrize("dead", [False, True], ids=["queued", "of a dead worker"])
    def test_one_claim_wins(self, stores: list[Store], workers: FakeWorkers, dead: bool) -> None:
        execution = begin(stores[0], worker=W1 if dead else None)
        workers.kill(W1)
        for number in range(RACERS):
            workers.start(f"racer-{number}")
        claims = race(lambda number: stores[number % 2].claim(execution.id, WorkerId(f"racer-{number}")))
        [claim] = wins(claims)
        taken = stores[1].execution(execution.id)
        assert (taken.worker, taken.epoch) == (claim.worker, claim.epoch) == (claim.worker, 1 + int(dead))

    def test_an_answer_and_a_cancel_cannot_both_take_it(self, stores: list[Store], workers: FakeWorkers) -> None:
        waiting, [asked] = parked(stores[0])

        def grab(number: int) -> Claim | None:
            store, worker = stores[number % 2], workers.start(f"racer-{number}")
            if number % 4 < 2:
                return store.claim_to_cancel(waiting.id, worker)
            return store.record_answers([approve(asked)], by="me", claim_for=worker).claim

        assert len(wins(race(grab))) == 1
        assert stores[0].execution(waiting.id).epoch == 2

    def test_no_answer_is_lost_while_its_execution_parks(self, stores: list[Store]) -> None:
        store = stores[0]
        execution = begin(store)
        journal = journal_of(store, execution)
        ids = ask(journal, count=RACERS)

        def answer_or_park(number: int) -> bool | None:
            if number == 0:
                return journal.park([frozenset({request_id}) for request_id in ids[1:]])
            stores[number % 2].record_answers([approve(ids[number])], by="me")
            return None

        [was_parked] = wins(race(answer_or_park))
        status = store.execution(execution.id).status
        assert status is (Status.QUEUED if was_parked else Status.RUNNING)

    def test_an_overdue_request_expires_once(self, stores: list[Store], clock: ManualClock) -> None:
        waiting, [asked] = parked(stores[0], expires_in=10)
        clock.advance(10)

        def settle(number: int) -> int:
            if number % 4 < 2:
                return len(stores[number % 2].settle_overdue())
            with pytest.raises(AnswerConflict):
                stores[number % 2].record_answers([approve(asked)], by="me")
            return 0

        assert sum(race(settle)) <= 1
        answer = stores[0].request(asked).answer
        assert answer is not None
        assert answer.outcome is Outcome.EXPIRED
        assert types_of(stores[0], waiting.id).count("resumed") == 1

    def test_the_first_to_cancel_is_kept(self, stores: list[Store]) -> None:
        execution = begin(stores[0])
        asked_by = race(lambda number: stores[number % 2].request_cancel(execution.id, f"racer-{number}").cancelled_by)
        assert set(asked_by) == {stores[0].execution(execution.id).cancelled_by}

    def test_created_at_once_all_are_there(self, stores: list[Store]) -> None:
        ids = race(lambda number: begin(stores[number % 2], text=f"racer {number}").id)
        assert len(set(ids)) == RACERS
        assert {execution.id for execution in stores[1].executions()} == set(ids)
        for number, execution_id in enumerate(ids):
            assert stores[0].events(execution_id)[1].message == f"racer {number}"

    def test_a_closed_conversation_is_closed_for_all(self, stores: list[Store]) -> None:
        parked(stores[0])

        def start(number: int) -> None:
            with pytest.raises(ConversationWaiting):
                begin(stores[number % 2], skip=True)

        race(start)
        assert len(stores[0].executions()) == 1

    def test_one_execution_ends_once(self, stores: list[Store]) -> None:
        execution = begin(stores[0])
        claim = Claim(execution.id, W1, 1)

        def end(number: int) -> str | None:
            try:
                succeed(stores[number % 2].journal(claim), f"racer {number}")
            except ClaimLost:
                return None
            return f"racer {number}"

        [output] = wins(race(end))
        assert stores[0].execution(execution.id).output == output
        assert types_of(stores[0], execution.id).count("complete") == 1

    def test_a_turn_is_counted_once(self, stores: list[Store]) -> None:
        execution = begin(stores[0])
        journals = [journal_of(store, execution) for store in stores]
        race(lambda number: record(journals[number % 2], 0))
        assert stores[0].execution(execution.id).usage.total_tokens == 15
        assert types_of(stores[0], execution.id) == ["system", "human", "ai"]

    def test_the_steps_of_one_call_in_threads_of_their_own(self, stores: list[Store]) -> None:
        execution = begin(stores[0])
        journal = journal_of(stores[0], execution)
        [asked] = ask(journal)
        journal.start_call(stores[0].request(asked).position, {}, None)

        def step(number: int) -> None:
            journal.begin_step(stores[0].request(asked).position, number, f"f{number}")
            journal.end_step(stores[0].request(asked).position, number, number, None)

        race(step)
        steps = stores[1].steps(execution.id, stores[0].request(asked).position)
        assert {number: found.result for number, found in steps.items()} == {n: n for n in range(RACERS)}

    def test_opened_by_all_at_once(self, connect: Callable[[], Store]) -> None:
        ids = race(lambda _: begin(connect()).id)
        assert len(set(ids)) == RACERS
        assert {execution.id for execution in connect().executions()} == set(ids)

    def test_no_connection_is_turned_away(self, connect: Callable[[], Store]) -> None:
        connections = [connect() for _ in range(RACERS)]
        waiting = [parked(connections[0]) for _ in range(RACERS)]

        def answer_and_drive(number: int) -> None:
            store, (execution, [asked]) = connections[number], waiting[number]
            claim = store.record_answers([approve(asked)], by="me", claim_for=W1).claim
            assert claim is not None
            store.journal(claim).release()
            assert store.claim(execution.id, W1) is not None
            store.request_cancel(execution.id, "me")

        race(answer_and_drive)
        assert all(store.cancelled_by == "me" for store in connections[0].executions())

    def test_answers_to_different_requests_do_not_meet(self, stores: list[Store]) -> None:
        waiting, ids = parked(stores[0], count=RACERS)
        race(lambda number: stores[number % 2].record_answers([approve(ids[number])], by=f"racer-{number}"))
        by = {request.id: request.answer and request.answer.answered_by for request in stores[0].requests(waiting.id)}
        assert by == {RequestId(asked): f"racer-{number}" for number, asked in enumerate(ids)}

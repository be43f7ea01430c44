"""Any store: deliveries of webhooks are made once, held by one, and there until they are finished."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_md.executions.deliveries import MESSAGE_TARGET, Delivery, HookEvent, NewDelivery
from agent_md.executions.execution import HookTarget, NewExecution
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.states import TriggerKind
from agent_md.ports.outbox import Outbox
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import SPEC, W1, W2, begin, human
from tests.support.workers import FakeWorkers

HOOK = HookTarget("https://example.com/hook", "token", "secret", include_messages=True)
LANE = "https://example.com:443"


def with_hook(store: Store) -> ExecutionId:
    new = NewExecution("writer", TriggerKind.API, (human("Hello"),), hook=HOOK)
    return store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=False, worker=W1).id


def add(
    store: Store,
    event_id: str,
    execution: ExecutionId,
    *,
    event: HookEvent = HookEvent.COMPLETED,
    target: str = "notify:0",
    lane: str = LANE,
    request: str | None = None,
    due_at: float = 0.0,
) -> None:
    """A delivery more in the outbox."""
    new = NewDelivery(
        event_id=event_id,
        event=event,
        execution_id=execution,
        target=target,
        lane=lane,
        event_at=1.5,
        due_at=due_at,
        request_id=None if request is None else RequestId(request),
    )
    at = store.outbox.cursor()
    assert store.outbox.enqueue([new], after=at, upto=at)


def claim(outbox: Outbox, worker: str = W1, mine: tuple[str, ...] = (), full: tuple[str, ...] = ()) -> Delivery | None:
    return outbox.claim(WorkerId(worker), mine=mine, full=full)


def claimed(outbox: Outbox, worker: str = W1, **more: tuple[str, ...]) -> str | None:
    delivery = claim(outbox, worker, **more)
    return None if delivery is None else delivery.event_id


@pytest.fixture
def execution(store: Store) -> ExecutionId:
    return begin(store).id


def test_what_is_not_done_is_counted_by_execution(store: Store, execution: ExecutionId) -> None:
    other = begin(store).id
    for event_id, of in (("a", execution), ("b", execution), ("c", other)):
        add(store, event_id, of)
    assert store.outbox.undelivered([execution]) == 2
    assert store.outbox.undelivered([execution, other]) == 3
    claimed(store.outbox)
    store.outbox.finish("a")
    assert store.outbox.undelivered([execution]) == 1
    assert store.outbox.undelivered([]) == 0


class TestTarget:
    def test_it_comes_with_its_execution(self, store: Store, execution: ExecutionId) -> None:
        assert store.outbox.target(with_hook(store)) == HOOK
        assert store.outbox.target(execution) is None

    def test_it_is_shown_nowhere(self) -> None:
        assert "token" not in repr(HOOK).replace("'token'", "")
        assert repr(HOOK).count("secret") == 0

    @pytest.mark.parametrize("event", [HookEvent.COMPLETED, HookEvent.FAILED])
    def test_it_goes_when_its_end_was_told_and_with_it_what_was_to_go_there(
        self, store: Store, event: HookEvent
    ) -> None:
        hooked = with_hook(store)
        add(store, "late", hooked, event=HookEvent.INTERRUPT, target=MESSAGE_TARGET, request="r1")
        add(store, "other", hooked, event=HookEvent.INTERRUPT, request="r1")
        add(store, "end", hooked, event=event, target=MESSAGE_TARGET)
        store.outbox.finish("end")
        assert store.outbox.target(hooked) is None
        assert [claimed(store.outbox), claimed(store.outbox, mine=("other",))] == ["other", None]

    def test_it_stays_while_there_is_more_to_tell(self, store: Store) -> None:
        hooked = with_hook(store)
        add(store, "asks", hooked, event=HookEvent.INTERRUPT, target=MESSAGE_TARGET, request="r1")
        add(store, "end of another target", hooked)
        store.outbox.finish("asks")
        store.outbox.finish("end of another target")
        assert store.outbox.target(hooked) == HOOK


class TestCursor:
    def test_a_new_outbox_is_at_the_start(self, store: Store) -> None:
        assert store.outbox.cursor() == 0

    def test_it_moves_with_what_is_added(self, store: Store, execution: ExecutionId) -> None:
        assert store.outbox.enqueue([], after=0, upto=7)
        assert store.outbox.cursor() == 7
        add(store, "a", execution)
        assert claimed(store.outbox) == "a"

    def test_who_is_behind_adds_nothing(self, store: Store, execution: ExecutionId) -> None:
        assert store.outbox.enqueue([], after=0, upto=7)
        late = NewDelivery(
            event_id="a",
            event=HookEvent.FAILED,
            execution_id=execution,
            target="notify:0",
            lane=LANE,
            event_at=0.0,
            due_at=0.0,
        )
        assert not store.outbox.enqueue([late], after=0, upto=8)
        assert (store.outbox.cursor(), claim(store.outbox)) == (7, None)

    def test_one_that_is_there_is_left_as_it_is(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution)
        assert claim(store.outbox) is not None
        add(store, "a", execution, lane="https://elsewhere:443")
        again = claim(store.outbox)
        assert again is not None
        assert (again.lane, again.attempts) == (LANE, 2)


class TestClaim:
    def test_it_tells_all_and_counts(self, store: Store, execution: ExecutionId, clock: ManualClock) -> None:
        add(store, "a", execution, event=HookEvent.INTERRUPT, request="r1")
        begun = clock.now
        first = claim(store.outbox)
        expected = Delivery(
            event_id="a",
            event=HookEvent.INTERRUPT,
            execution_id=execution,
            target="notify:0",
            lane=LANE,
            event_at=1.5,
            due_at=0.0,
            request_id=RequestId("r1"),
            attempts=1,
            first_at=begun,
            body=None,
        )
        assert first == expected
        store.outbox.freeze("a", "{}", told=())
        store.outbox.postpone("a", begun + 5)
        clock.advance(5)
        second = claim(store.outbox)
        assert second is not None
        assert (second.attempts, second.first_at, second.body, second.due_at) == (2, begun, "{}", begun + 5)

    def test_not_before_it_is_due(self, store: Store, execution: ExecutionId, clock: ManualClock) -> None:
        add(store, "a", execution, due_at=clock.now + 1)
        assert claim(store.outbox) is None
        clock.advance(1)
        assert claimed(store.outbox) == "a"

    def test_what_is_due_longest_comes_first(self, store: Store, execution: ExecutionId) -> None:
        for event_id, due_at in (("c", 2.0), ("b", 1.0), ("a", 2.0)):
            add(store, event_id, execution, due_at=due_at)
        assert claimed(store.outbox) == "b"
        assert claimed(store.outbox, mine=("b",)) == "a"
        assert claimed(store.outbox, mine=("b", "a")) == "c"

    def test_a_full_lane_holds_up_no_other(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution, lane="https://slow:443")
        add(store, "b", execution, due_at=1.0)
        assert claimed(store.outbox, full=("https://slow:443",)) == "b"
        assert claimed(store.outbox, mine=("b",), full=("https://slow:443", LANE)) is None

    def test_only_first_attempts(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution)
        claimed(store.outbox)
        store.outbox.postpone("a", 0.0)
        add(store, "b", execution, due_at=1.0)
        first = store.outbox.claim(W1, mine=(), full=(), first=True)
        assert first is not None
        assert (first.event_id, first.attempts) == ("b", 1)
        assert store.outbox.claim(W1, mine=("b",), full=(), first=True) is None
        assert claimed(store.outbox, mine=("b",)) == "a"

    def test_one_that_lives_keeps_it(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution)
        assert claimed(store.outbox, W1) == "a"
        assert claimed(store.outbox, W2) is None

    def test_it_is_taken_from_the_dead(self, store: Store, execution: ExecutionId, workers: FakeWorkers) -> None:
        add(store, "a", execution)
        claimed(store.outbox, W1)
        workers.kill(W1)
        assert claimed(store.outbox, W2) == "a"

    def test_what_the_same_worker_lost_is_taken_again(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution)
        assert claimed(store.outbox) == "a"
        assert claimed(store.outbox, mine=("a",)) is None
        assert claimed(store.outbox) == "a"

    def test_let_go_means_free_for_all(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution)
        claimed(store.outbox, W1)
        store.outbox.postpone("a", 0.0)
        assert claimed(store.outbox, W2) == "a"

    def test_of_many_at_once_one_gets_it(self, connect: Callable[[], Store], workers: FakeWorkers) -> None:
        stores = [connect(), connect()]
        execution = begin(stores[0]).id
        for number in range(10):
            add(stores[0], f"e{number}", execution)
        racers = [workers.start(f"racer-{number}") for number in range(6)]

        def race(number: int) -> list[str]:
            won: list[str] = []
            while (event_id := claimed(stores[number % 2].outbox, racers[number], mine=tuple(won))) is not None:
                won.append(event_id)
            return won

        with ThreadPoolExecutor(6) as pool:
            won = [event_id for each in pool.map(race, range(6)) for event_id in each]
        assert sorted(won) == [f"e{number}" for number in range(10)]


class TestNextDue:
    def test_nothing(self, store: Store) -> None:
        assert store.outbox.next_due(mine=()) is None

    def test_the_earliest_that_is_not_mine(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution, due_at=3.0)
        add(store, "b", execution, due_at=4.0)
        assert store.outbox.next_due(mine=()) == 3.0
        assert store.outbox.next_due(mine=("a",)) == 4.0
        assert store.outbox.next_due(mine=("a", "b")) is None

    def test_after_it_was_postponed_and_finished(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution)
        store.outbox.postpone("a", 9.0)
        assert store.outbox.next_due(mine=()) == 9.0
        store.outbox.finish("a")
        assert store.outbox.next_due(mine=()) is None


class TestFreeze:
    def test_those_that_would_tell_the_same_go(self, store: Store, execution: ExecutionId) -> None:
        other = begin(store, agent="other").id
        asks = HookEvent.INTERRUPT
        add(store, "a", execution, event=asks, request="r1")
        add(store, "b told by a", execution, event=asks, request="r2")
        add(store, "c not told", execution, event=asks, request="r3")
        add(store, "d elsewhere", execution, event=asks, request="r2", target="notify:1")
        add(store, "e of another", other, event=asks, request="r2")
        add(store, "f the end", execution)
        assert store.outbox.freeze("a", "{}", told=("r1", "r2"))
        found: list[str] = []
        while (event_id := claimed(store.outbox, mine=tuple(found))) is not None:
            found.append(event_id)
        assert [event_id[0] for event_id in found] == ["a", "c", "d", "e", "f"]

    def test_one_that_was_sent_before_stays(self, store: Store, execution: ExecutionId) -> None:
        for event_id, request in (("a", "r1"), ("b", "r2")):
            add(store, event_id, execution, event=HookEvent.INTERRUPT, request=request)
        assert store.outbox.freeze("b", "{}", told=("r2",))
        assert store.outbox.freeze("a", "{}", told=("r1", "r2"))
        assert claimed(store.outbox, mine=("a",)) == "b"

    def test_one_that_has_gone_tells_nothing(self, store: Store, execution: ExecutionId) -> None:
        add(store, "a", execution, event=HookEvent.INTERRUPT, request="r1")
        assert not store.outbox.freeze("gone", "{}", told=("r1",))
        assert claimed(store.outbox) == "a"


def test_what_has_gone_is_left_alone(store: Store) -> None:
    store.outbox.postpone("gone", 0.0)
    store.outbox.finish("gone")
    assert store.outbox.next_due(mine=()) is None

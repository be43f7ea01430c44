"""Any store: a delivery of a webhook is one firing, by whichever of its keys it is known, for as long as they count."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from agent_md.errors import FiringDecided
from agent_md.executions.execution import Execution, NewExecution
from agent_md.executions.firings import Firing, FiringState, NewFiring
from agent_md.executions.states import TriggerKind
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import SPEC, W1, human, succeed

WEEK = 7 * 24 * 3600.0


def deliver(store: Store, key: str, *keys: str, agent: str = "writer", since: float = 0.0) -> Firing:
    new = NewFiring(agent=agent, trigger=TriggerKind.WEBHOOK, key=key, due_at=5.0, message=f"data of {key}")
    return store.firings.deliver(new, keys, since)


def start(store: Store, firing: Firing) -> Execution:
    created = NewExecution(firing.agent, firing.trigger, (human(firing.message or ""),))
    return store.create(created, spec=SPEC, spec_digest="d", skip_if_waiting=False, worker=None, firing=firing.id)


def test_it_is_known_by_each_of_its_keys(store: Store) -> None:
    first = deliver(store, "one", "id:1", "signature:a")
    assert (first.key, first.state, first.message) == ("one", FiringState.DUE, "data of one")
    assert deliver(store, "two", "id:1", "signature:b") == first
    assert deliver(store, "two", "id:2", "signature:a") == first
    assert deliver(store, "two", "signature:b").key == "two", "what was given back adds no keys"
    assert deliver(store, "three", "id:1", agent="WRITER") == first
    assert deliver(store, "four", "id:1", agent="other").agent == "other"
    assert [firing.key for firing in store.firings.due()] == ["one", "two", "four"]


def test_its_message_stays_until_it_is_decided(store: Store) -> None:
    started, skipped = deliver(store, "one", "id:1"), deliver(store, "two", "id:2")
    execution = start(store, started)
    assert store.firings.skip(skipped.id, "paused")
    assert [store.firings.firing(f.id).message for f in (started, skipped)] == [None, None]
    assert store.firings.firing(started.id).execution_id == execution.id
    assert deliver(store, "three", "id:1") == store.firings.firing(started.id)


def test_one_that_was_skipped_may_come_again(store: Store) -> None:
    first = deliver(store, "one", "id:1", "signature:a")
    store.firings.skip(first.id, "paused")
    again = deliver(store, "two", "id:1", "signature:a")
    assert (again.key, again.state) == ("two", FiringState.DUE)
    assert store.firings.firing(first.id).reason == "paused"
    start(store, again)
    assert deliver(store, "three", "signature:a").id == again.id


def test_keys_count_for_their_time(store: Store, clock: ManualClock) -> None:
    first = deliver(store, "one", "id:1", since=clock.now - WEEK)
    clock.advance(WEEK - 1)
    assert deliver(store, "two", "id:1", since=clock.now - WEEK) == first
    clock.advance(1)
    assert deliver(store, "two", "id:1", since=clock.now - WEEK).key == "two"


def test_one_whose_execution_was_removed_is_known_still(store: Store, clock: ManualClock) -> None:
    firing = deliver(store, 'a "strange" §/key', "id:1")
    old = start(store, firing)
    claim = store.claim(old.id, W1)
    assert claim is not None
    succeed(store.journal(claim))
    start(store, deliver(store, "two", "id:2"))  # the latest one of an agent stays
    clock.advance(10)
    removed, _ = store.retention.remove_some(store.retention.removable(clock.now - 1))
    assert removed == [old.id]
    again = deliver(store, "three", "id:1")
    assert (again.id, again.state, again.execution_id) == (firing.id, FiringState.STARTED, old.id)


def test_of_many_equal_ones_at_once_one_starts(connect: Callable[[], Store]) -> None:
    stores = [connect() for _ in range(4)]

    def whole(number: int) -> bool:
        try:
            start(stores[number], deliver(stores[number], f"key {number}", f"id:{number % 2}", "signature:a"))
        except FiringDecided:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(whole, range(4))) == [False, False, False, True]
    assert len(stores[0].executions()) == 1

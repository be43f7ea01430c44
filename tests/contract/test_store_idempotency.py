"""Any store: a creation with a client's key happens once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from agent_md.errors import ConversationWaiting, IdempotencyMismatch
from agent_md.executions.execution import Execution, NewExecution
from agent_md.executions.states import Status, TriggerKind
from agent_md.ports.store import Idempotency, Store
from tests.support.scenes import SPEC, W1, human, parked, succeed

KEY = Idempotency("key", "body")


def create(store: Store, idempotency: Idempotency, *, agent: str = "writer", skip: bool = False) -> Execution:
    new = NewExecution(agent, TriggerKind.API, (human("Hello"),))
    return store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=skip, worker=None, idempotency=idempotency)


def test_the_same_again_is_the_first(store: Store) -> None:
    first = create(store, KEY)
    assert create(store, KEY) == first
    assert [execution.id for execution in store.executions()] == [first.id]
    assert len(store.events(first.id)) == 2


def test_the_first_is_given_as_it_is_now(store: Store) -> None:
    first = create(store, KEY)
    claim = store.claim(first.id, W1)
    assert claim is not None
    succeed(store.journal(claim))
    assert create(store, KEY).status is Status.SUCCESS


def test_another_body_is_refused(store: Store) -> None:
    first = create(store, KEY)
    with pytest.raises(IdempotencyMismatch):
        create(store, Idempotency(KEY.key, "other"))
    assert [execution.id for execution in store.executions()] == [first.id]


def test_another_key_and_another_agent_are_others(store: Store) -> None:
    ids = {create(store, KEY).id, create(store, Idempotency("other", "body")).id, create(store, KEY, agent="b").id}
    assert len(ids) == 3


def test_it_is_looked_up_before_the_conversation(store: Store) -> None:
    first = create(store, KEY, skip=True)
    parked(store)
    assert create(store, KEY, skip=True).id == first.id


def test_a_refused_one_is_not_remembered(store: Store) -> None:
    waiting, _ = parked(store)
    with pytest.raises(ConversationWaiting):
        create(store, KEY, skip=True)
    claim = store.claim_to_cancel(waiting.id, W1)
    assert claim is not None
    succeed(store.journal(claim))
    assert create(store, Idempotency(KEY.key, "other"), skip=True).id > waiting.id


def test_many_at_once_make_one(connect: Callable[[], Store]) -> None:
    stores = [connect(), connect()]
    barrier = Barrier(12)

    def racer(number: int) -> Execution:
        barrier.wait()
        return create(stores[number % 2], KEY)

    with ThreadPoolExecutor(12) as pool:
        made = list(pool.map(racer, range(12)))
    assert {execution.id for execution in made} == {made[0].id}
    assert len(stores[0].executions()) == 1

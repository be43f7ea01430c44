"""A model that is asked again is seen in the stream of its execution, whether text was told before or not."""

from __future__ import annotations

import json

import pytest

from agent_md.api.sse import DeltaStream
from agent_md.engines.hub import Hub
from tests.support.memory_store import MemoryStore
from tests.support.scenes import W1, begin
from tests.support.workers import FakeWorkers


@pytest.mark.parametrize("said_before", [True, False])
async def test_a_retry_is_a_restart_that_says_which_attempt_it_is(said_before: bool) -> None:
    store = MemoryStore(workers=FakeWorkers(W1))
    hub, execution = Hub(store), begin(store)
    with hub.watch(execution.id) as watch:
        pieces = DeltaStream(store, watch, execution.id, resumed=False)
        if said_before:
            hub.delta(execution.id, 0, "Wro")
            assert len(list(pieces.news())) == 1
        hub.restart(execution.id, 0, 2, 4)
        (told,) = pieces.news()
        assert told.startswith(b"event: delta\n")
        assert json.loads(told.partition(b"data: ")[2]) == {
            "execution_id": execution.id,
            "turn": 0,
            "restart": True,
            "attempt": 2,
            "attempts": 4,
        }
        hub.delta(execution.id, 0, "Right")
        (told,) = pieces.news()
        assert b'"text": "Right"' in told

"""Who waits at the hub can be cancelled at any moment, also at that of a change."""

from __future__ import annotations

import asyncio

import pytest

from agent_md.engines.hub import Hub
from tests.support.memory_store import MemoryStore
from tests.support.workers import FakeWorkers


async def test_a_cancellation_is_not_lost_to_a_change_of_the_same_moment() -> None:
    hub = Hub(MemoryStore(workers=FakeWorkers()))
    waiting = asyncio.create_task(hub.wait(hub.generation, 60.0))
    await asyncio.sleep(0)
    hub.wake_all()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_nor_is_that_of_the_hub_itself() -> None:
    hub = Hub(MemoryStore(workers=FakeWorkers()))
    running = asyncio.create_task(hub.run())
    await asyncio.sleep(0)
    hub.stored()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

"""What holds an event loop is logged, with the place in the code."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from agent_md.api.loop_watchdog import LoopWatchdog
from tests.support.waiting import until


def _hold_the_loop(seconds: float) -> None:
    time.sleep(seconds)


async def test_the_place_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), LoopWatchdog(0.05):
        await asyncio.sleep(0.2)
        _hold_the_loop(0.5)
        await asyncio.to_thread(until, lambda: bool(caplog.records))
    held = [record.getMessage() for record in caplog.records if "_hold_the_loop" in record.getMessage()]
    assert len(held) == 1
    assert "the event loop was held for 0." in held[0]
    assert "test_loop_watchdog.py" in held[0]


async def test_it_ends_with_its_block() -> None:
    with LoopWatchdog():
        assert [thread for thread in threading.enumerate() if thread.name == "loop watchdog"]
    await asyncio.to_thread(until, lambda: all(thread.name != "loop watchdog" for thread in threading.enumerate()))

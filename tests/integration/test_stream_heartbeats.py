"""No stream is silent for longer than its heartbeat after what was sent last, whatever happens unsent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from agent_md.api.context import ServerContext
from agent_md.api.event_streams import execution_stream, global_stream
from agent_md.api.session_stream import session_stream
from agent_md.api.sse import COMMENT, HEARTBEAT_S, Heartbeat
from agent_md.app import App
from agent_md.engines.hub import Hub
from agent_md.engines.local import LocalEngine
from agent_md.executions.ids import ExecutionId
from agent_md.settings import load_settings
from tests.support.clock import ManualClock
from tests.support.sessions import talking_world
from tests.support.trusting import TRUSTING

_S = 1.0


async def alone(execution_id: ExecutionId) -> None:
    raise AssertionError(f"nothing is driven here, execution {execution_id} is")


@pytest.fixture
def context(tmp_path: Path) -> Iterator[ServerContext]:
    """The workspace of a server that drives nothing."""
    world = talking_world(tmp_path / "ws")
    app = App(load_settings(world.workspace, environ=TRUSTING, cwd=tmp_path, home=tmp_path))
    app.open()
    hub = Hub(app.store)
    engine = LocalEngine(app.store, app.runner(), hub, app.worker, max_concurrent=lambda: 1, drive_alone=alone)
    yield ServerContext(app, hub, engine, lambda: None)
    app.close()


def of_execution(context: ServerContext) -> AsyncIterator[bytes]:
    execution = context.app.starter.start("worker", message="hello", claimed=False)
    return execution_stream(context, execution, None, heartbeat=_S)


def of_session(context: ServerContext) -> AsyncIterator[bytes]:
    context.app.starter.start("worker", message="hello", session_id="s", claimed=False)
    return session_stream(context, context.store.sessions.get("worker", "s"), None, heartbeat=_S)


def of_everything(context: ServerContext) -> AsyncIterator[bytes]:
    return global_stream(context, None, heartbeat=_S)


@pytest.mark.parametrize("stream_of", [of_execution, of_session, of_everything])
async def test_what_is_not_sent_puts_no_heartbeat_off(
    context: ServerContext, stream_of: Callable[[ServerContext], AsyncIterator[bytes]]
) -> None:
    stream = stream_of(context)
    sent = [await anext(stream) for _ in range(1 if stream_of is of_everything else 2)]
    assert all(b"event: " in text for text in sent)
    coming = asyncio.ensure_future(anext(stream))
    late = asyncio.ensure_future(asyncio.sleep(1.7 * _S))
    await asyncio.sleep(0.9 * _S)
    context.hub.wake_all()  # what it looks at now is nothing to send
    await asyncio.wait({coming, late}, return_when=asyncio.FIRST_COMPLETED)
    assert coming.done(), "the heartbeat counts from what was sent last"
    assert coming.result() == COMMENT or coming.result().startswith(b"event: heartbeat")
    late.cancel()
    await stream.aclose()  # type: ignore[attr-defined]


def test_a_heartbeat_counts_from_what_was_sent() -> None:
    clock = ManualClock()
    beat = Heartbeat(8.0, clock)
    clock.advance(7.5)
    assert beat.left == 0.5
    beat.sent()
    assert beat.left == 8.0
    clock.advance(9)
    assert beat.left == 0.0


def test_clients_that_give_up_after_ten_seconds_stay() -> None:
    assert HEARTBEAT_S < 10

"""Webhooks by real HTTP, from a real database, whatever the receiver does and whoever is killed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from pathlib import Path

import pytest

from agent_md.agents.spec import NotifyTarget
from agent_md.engines.hub import Hub
from agent_md.executions.execution import HookTarget
from agent_md.executions.ids import ExecutionId
from agent_md.outbound.transport import GuardedTransport
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.migrate import migrations
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.webhooks.post import HttpPost, NotSent, Reply
from agent_md.webhooks.sender import WebhookSender
from tests.support.clock import ManualClock
from tests.support.forks import in_processes
from tests.support.receiver import Behaviour, Exchange, Receiver, answer, close_early, endless, never, receiver
from tests.support.scenes import W1, W2, begin, journal_of, succeed
from tests.support.webhooks import Webhooks, hooked
from tests.support.workers import FakeWorkers

TOKEN, SECRET = "t0ken-canary", "whsec_" + base64.b64encode(b"s3cret-canary").decode()
BODY = b'{"a":1}'


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


def post_to_loopback(total: float = 10.0) -> HttpPost:
    return HttpPost(GuardedTransport(lambda: ["127.0.0.1"]), total=total)


class TestPost:
    async def test_what_is_sent(self, there: Receiver) -> None:
        assert await post_to_loopback()(f"{there.url}?q=1", {"webhook-id": "evt_1"}, BODY) == Reply(204)
        (came,) = there.received
        assert (came.path, came.body) == ("/hook?q=1", BODY)
        assert came.headers["content-type"] == "application/json"
        assert came.headers["webhook-id"] == "evt_1"
        assert came.headers["content-length"] == str(len(BODY))
        assert came.headers["user-agent"].startswith("agentmd/")

    @pytest.mark.parametrize("status", [200, 302, 404, 410, 500])
    async def test_every_answer_is_given_back(self, there: Receiver, status: int) -> None:
        there.behaviours = [answer(status, Location=there.url)]
        assert (await post_to_loopback()(there.url, {}, BODY)).status == status
        assert len(there.received) == 1  # no redirect is followed

    async def test_when_to_try_again(self, there: Receiver) -> None:
        soon = formatdate(time.time() + 100, usegmt=True)
        there.behaviours = [
            answer(429, Retry_After=value) for value in ("17", soon, "soon", "-5", "Fri, 99 Foo", "9" * 5000)
        ]
        waits = [(await post_to_loopback()(there.url, {}, BODY)).retry_after for _ in range(6)]
        assert waits[0] == 17
        assert waits[1] is not None
        assert 90 < waits[1] <= 100
        assert waits[2:5] == [None, None, None]
        assert waits[5] == 999_999_999

    @pytest.mark.parametrize("behaviour", [never, close_early], ids=["never", "close early"])
    async def test_no_answer(self, there: Receiver, behaviour: Behaviour) -> None:
        there.behaviours = [behaviour]
        with pytest.raises(NotSent):
            await post_to_loopback(total=0.2)(there.url, {}, BODY)

    async def test_an_answer_without_end_is_not_read(self, there: Receiver) -> None:
        there.behaviours = [endless]
        assert (await post_to_loopback()(there.url, {}, BODY)).status == 200

    async def test_headers_without_end_are_not_waited_for(self, there: Receiver) -> None:
        def drip(exchange: Exchange) -> None:
            exchange.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not exchange.receiver.closing.wait(0.01):
                exchange.wfile.write(b"x: y\r\n")

        there.behaviours = [drip]
        with pytest.raises(NotSent, match="no answer within"):
            await post_to_loopback(total=0.3)(there.url, {}, BODY)

    async def test_nobody_listens(self) -> None:
        with receiver() as gone:
            url = gone.url
        with pytest.raises(NotSent, match="connection failed"):
            await post_to_loopback()(url, {}, BODY)

    @pytest.mark.parametrize("url", ["http://localhost:1/", "http://[::1]/", "http://169.254.169.254/", "ftp://x/"])
    async def test_an_address_that_must_not_be_reached(self, url: str) -> None:
        with pytest.raises(NotSent, match="nothing was sent"):
            await post_to_loopback()(url, {}, BODY)

    async def test_what_cannot_be_a_header_is_not_told(self, there: Receiver) -> None:
        with pytest.raises(NotSent) as refused:
            await post_to_loopback()(there.url, {"Authorization": f"Bearer {TOKEN}\r\n"}, BODY)
        assert TOKEN not in str(refused.value)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agentmd.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(float(int(time.time())))


@pytest.fixture
def store(path: Path, clock: ManualClock) -> Iterator[SqliteStore]:
    opened = SqliteStore(path, workers=FakeWorkers(W1, W2), clock=clock)
    yield opened
    opened.close()


def target(there: Receiver) -> NotifyTarget:
    return NotifyTarget(there.url, "${TOKEN}", "${SECRET}")


def webhooks_on(store: SqliteStore, clock: ManualClock) -> Webhooks:
    return Webhooks(store, post_to_loopback(), clock, environment={"TOKEN": TOKEN, "SECRET": SECRET})


async def test_a_receiver_can_know_who_sent_it(store: SqliteStore, clock: ManualClock, there: Receiver) -> None:
    succeed(journal_of(store, hooked(store, target(there), session_id="s")))
    assert await webhooks_on(store, clock).deliver_due() == 1
    (came,) = there.received
    assert came.headers["authorization"] == f"Bearer {TOKEN}"
    assert came.headers["webhook-timestamp"] == str(int(clock.now))
    signed = f"{came.headers['webhook-id']}.{came.headers['webhook-timestamp']}.".encode() + came.body
    digest = hmac.new(b"s3cret-canary", signed, hashlib.sha256).digest()
    assert came.headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    assert came.json["event_id"] == came.headers["webhook-id"]


async def test_a_receiver_that_is_down_for_a_while(
    store: SqliteStore, clock: ManualClock, there: Receiver, caplog: pytest.LogCaptureFixture, path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    succeed(journal_of(store, hooked(store, target(there))))
    webhooks = webhooks_on(store, clock)
    there.behaviours = [answer(500), close_early, answer(429, Retry_After="30"), answer(302, Location="http://[::1]/")]
    for wait in (0, 2, 4, 30, 16):
        clock.advance(wait)
        assert await webhooks.deliver_due() == 1
    assert len(there.received) == 5
    assert len({came.body for came in there.received}) == 1
    assert store.outbox.next_due(mine=()) is None
    kept = b"".join(file.read_bytes() for file in path.parent.glob("agentmd.db*"))
    for secret in (TOKEN, SECRET, "s3cret-canary", there.url):
        assert secret not in caplog.text
    assert TOKEN.encode() not in kept
    assert SECRET.encode() not in kept


async def test_what_came_with_a_message_is_forgotten_when_it_was_told(
    store: SqliteStore, clock: ManualClock, there: Receiver
) -> None:
    hook = HookTarget(there.url, TOKEN, SECRET, include_messages=True)
    execution = hooked(store, hook=hook, session_id="s")
    succeed(journal_of(store, execution))
    await webhooks_on(store, clock).deliver_due()
    assert there.received[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert there.received[0].json["messages"]
    assert store.outbox.target(execution.id) is None


def test_killed_between_the_sending_and_its_record(path: Path, clock: ManualClock, there: Receiver) -> None:
    """The receiver kills the sender as soon as it has the body: it comes again, as the same event."""
    store = SqliteStore(path, workers=FakeWorkers(W1), clock=clock)
    succeed(journal_of(store, hooked(store, target(there))))
    store.close()
    told, tell = os.pipe()

    def kill(exchange: Exchange) -> None:
        os.kill(int(os.read(told, 20)), signal.SIGKILL)

    def send() -> None:
        os.write(tell, str(os.getpid()).encode())
        opened = SqliteStore(path, workers=FakeWorkers(W1), clock=clock)
        asyncio.run(webhooks_on(opened, clock).deliver_due())

    there.behaviours = [kill]
    assert in_processes(send) == [-signal.SIGKILL]
    store = SqliteStore(path, workers=FakeWorkers(W2), clock=clock)  # the first worker is dead
    webhooks = Webhooks(store, post_to_loopback(), clock, worker=W2, environment={"TOKEN": TOKEN, "SECRET": SECRET})
    assert asyncio.run(webhooks.deliver_due()) == 1
    store.close()
    assert [came.body for came in there.received] == [there.received[0].body] * 2
    for descriptor in (told, tell):
        os.close(descriptor)


async def test_the_hub_of_a_server_wakes_it_when_another_process_ends_a_turn(
    path: Path, store: SqliteStore, clock: ManualClock, there: Receiver
) -> None:
    webhooks = webhooks_on(store, clock)
    hub = Hub(store)
    sender = WebhookSender(store.outbox, webhooks.deriver, webhooks.attempts, W1, clock=clock)
    tasks = [asyncio.create_task(part) for part in (hub.run(), sender.run(hub))]
    other = SqliteStore(path, workers=FakeWorkers(W1, W2), clock=clock)
    succeed(journal_of(other, hooked(other, target(there))))
    other.close()
    async with asyncio.timeout(10):
        while not there.received or store.outbox.next_due(mine=()) is not None:
            await hub.wait(hub.generation, 1.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(there.received) == 1


async def test_the_past_of_a_database_of_an_older_version_is_not_told(
    path: Path, clock: ManualClock, there: Receiver
) -> None:
    old = Database(path, scripts=migrations()[:3])
    with old.write():
        old.run("INSERT INTO specs VALUES ('d', '{}')")
        old.run(
            "INSERT INTO executions (id, agent, spec_digest, trigger, seed, status, epoch, attempts, created_at)"
            " VALUES (1, 'a', 'd', 'manual', '[]', 'success', 1, 0, 0)"
        )
        for key, kind in (("system", "system"), ("complete", "complete")):
            old.run("INSERT INTO events VALUES (NULL, 1, ?, ?, '', '{\"status\": \"success\"}', 0)", key, kind)
    old.close()
    store = SqliteStore(path, workers=FakeWorkers(W1), clock=clock)
    assert store.outbox.cursor() == store.last_event() == 2
    succeed(journal_of(store, hooked(store, target(there))))
    assert await webhooks_on(store, clock).deliver_due() == 1
    store.close()


def test_deliveries_go_with_their_execution(path: Path, store: SqliteStore, clock: ManualClock) -> None:
    execution = hooked(store, NotifyTarget("https://a.example/"), hook=HookTarget("https://b.example/"))
    succeed(journal_of(store, execution))
    kept = begin(store)
    webhooks_on(store, clock).deriver.catch_up()
    assert store.outbox.next_due(mine=()) is not None
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("DELETE FROM events WHERE execution_id = ?", (execution.id,))
        connection.execute("DELETE FROM executions WHERE id = ?", (execution.id,))
        connection.commit()
    assert store.outbox.next_due(mine=()) is None
    assert store.outbox.target(ExecutionId(execution.id)) is None
    assert store.execution(kept.id) == kept

"""The sender: what is due is sent at once, nobody delays another, and it may be cut at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agent_md.agents.spec import NotifyTarget
from agent_md.errors import StoreFull
from agent_md.executions.deliveries import Delivery
from agent_md.ports.store import Store
from agent_md.webhooks.post import NotAllowed, Reply
from tests.support.clock import ManualClock
from tests.support.memory_outbox import MemoryOutbox
from tests.support.memory_store import MemoryStore
from tests.support.scenes import W1, W2, journal_of, succeed
from tests.support.webhooks import ScriptedPost, Webhooks, hooked
from tests.support.workers import FakeWorkers

SLOW = NotifyTarget("https://slow.example/")
QUICK = NotifyTarget("https://quick.example/")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def workers() -> FakeWorkers:
    return FakeWorkers(W1, W2)


@pytest.fixture
def store(clock: ManualClock, workers: FakeWorkers) -> MemoryStore:
    return MemoryStore(workers=workers, clock=clock)


@pytest.fixture
def post() -> ScriptedPost:
    return ScriptedPost()


@pytest.fixture
def webhooks(store: Store, post: ScriptedPost, clock: ManualClock) -> Webhooks:
    return Webhooks(store, post, clock)


def end(store: Store, *targets: NotifyTarget) -> None:
    succeed(journal_of(store, hooked(store, *targets)))


async def until(condition: Callable[[], object]) -> None:
    """Lets the other tasks go on until it holds; they wait for nothing but each other."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to hold")


async def test_what_comes_later_is_sent_too(store: Store, post: ScriptedPost, webhooks: Webhooks) -> None:
    end(store, QUICK)
    async with webhooks.running():
        await until(lambda: len(post.sent) == 1)
        end(store, QUICK)
        webhooks.changes.tell()
        await until(lambda: len(post.sent) == 2)
        await until(lambda: store.outbox.next_due(mine=()) is None)
    assert [delivery.url for delivery in post.sent] == [QUICK.url] * 2


async def test_what_failed_is_sent_again_when_its_time_has_come(
    store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
) -> None:
    end(store, QUICK)
    post.replies = [Reply(500)]
    async with webhooks.running():
        await until(lambda: (store.outbox.next_due(mine=()) or 0) > clock.now)
        webhooks.changes.tell()
        await asyncio.sleep(0)
        assert len(post.sent) == 1
        clock.advance(2)
        webhooks.changes.tell()
        await until(lambda: len(post.sent) == 2)


async def test_one_that_is_slow_delays_no_other(store: Store, post: ScriptedPost, webhooks: Webhooks) -> None:
    release = asyncio.Event()

    async def hold(url: str) -> None:
        if url == SLOW.url:
            await release.wait()

    post.hold = hold
    for _ in range(50):
        end(store, SLOW)
    end(store, QUICK)
    async with webhooks.running():
        await until(lambda: QUICK.url in [sent.url for sent in post.sent])
        assert [sent.url for sent in post.sent].count(SLOW.url) == 4
        release.set()
        await until(lambda: len(post.sent) == 51)
        await until(lambda: store.outbox.next_due(mine=()) is None)
    assert len({sent.body["event_id"] for sent in post.sent}) == 51


async def test_any_number_that_fail_again_and_again_leave_places_to_others(
    store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
) -> None:
    dead = [NotifyTarget(f"https://dead-{number}.example/") for number in range(40)]
    post.replies = [Reply(500)] * len(dead)
    end(store, *dead)
    async with webhooks.running():
        await until(lambda: len(post.sent) == len(dead))
        let_go = asyncio.Event()

        async def hold(url: str) -> None:
            if "dead" in url:
                await let_go.wait()

        post.hold = hold
        clock.advance(3600)
        webhooks.changes.tell()
        await until(lambda: len(post.sent) == len(dead) + 16)
        end(store, QUICK)
        webhooks.changes.tell()
        await until(lambda: post.sent[-1].url == QUICK.url)
        assert len(post.sent) == len(dead) + 17
        let_go.set()
        await until(lambda: len(post.sent) == 2 * len(dead) + 1)


async def test_not_more_than_its_places_at_once(store: Store, post: ScriptedPost, webhooks: Webhooks) -> None:
    release, at_once, most = asyncio.Event(), 0, 0

    async def hold(url: str) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await release.wait()
        at_once -= 1

    post.hold = hold
    for number in range(40):
        end(store, NotifyTarget(f"https://host-{number}.example/"))
    async with webhooks.running():
        await until(lambda: at_once == 32)
        release.set()
        await until(lambda: len(post.sent) == 40)
    assert most == 32


@pytest.mark.parametrize("worker", [W1, W2], ids=["this process again", "another process"])
async def test_what_was_cut_is_sent_again(
    store: Store, post: ScriptedPost, webhooks: Webhooks, workers: FakeWorkers, clock: ManualClock, worker: str
) -> None:
    end(store, QUICK)

    async def hold(url: str) -> None:
        await asyncio.Event().wait()

    post.hold = hold
    async with webhooks.running():
        await until(lambda: len(post.sent) == 1)
    post.hold = None
    if worker == W2:
        workers.kill(W1)
    again = Webhooks(store, post, clock, worker=workers.start(worker))
    async with again.running():
        await until(lambda: store.outbox.next_due(mine=()) is None)
    assert post.sent[0].body == post.sent[1].body
    assert len(post.sent) == 2


async def test_cut_before_it_was_begun(store: Store, post: ScriptedPost, webhooks: Webhooks) -> None:
    for _ in range(3):
        end(store, QUICK)
    sender = webhooks.sender()
    for _ in range(2):
        task = asyncio.create_task(sender.run(webhooks.changes))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    task = asyncio.create_task(sender.run(webhooks.changes))
    await until(lambda: store.outbox.next_due(mine=()) is None)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert len({sent.body["event_id"] for sent in post.sent}) == 3


async def test_draining_sends_what_is_due_and_ends(store: Store, post: ScriptedPost, webhooks: Webhooks) -> None:
    for target in (QUICK, SLOW, QUICK):
        end(store, target)
    await webhooks.sender().drain(10)
    assert sorted(sent.url for sent in post.sent) == [QUICK.url, QUICK.url, SLOW.url]
    assert store.outbox.next_due(mine=()) is None


async def test_draining_does_not_wait_for_what_is_due_after_its_time(
    store: Store, post: ScriptedPost, webhooks: Webhooks
) -> None:
    post.replies = [Reply(503, 60.0)]
    end(store, QUICK)
    await asyncio.wait_for(webhooks.sender().drain(30), 10)
    assert len(post.sent) == 1
    assert store.outbox.undelivered([execution.id for execution in store.executions()]) == 1


async def test_draining_tries_what_must_not_be_reached_once_and_says_why(
    store: Store, post: ScriptedPost, webhooks: Webhooks
) -> None:
    end(store, SLOW)
    end(store, QUICK)
    tried = []

    async def refuse(url: str) -> None:
        tried.append(url)
        if url == SLOW.url:
            raise NotAllowed("it is a private address")

    post.hold = refuse
    refused = await asyncio.wait_for(webhooks.sender().drain(3600), 10)
    assert [(delivery.lane, why) for delivery, why in refused] == [
        ("https://slow.example:443", "it is a private address")
    ]
    assert sorted(tried) == [QUICK.url, SLOW.url]
    assert store.outbox.next_due(mine=()) is not None  # a server, or a command with other settings, tries again


async def test_what_draining_cut_off_is_sent_by_the_next_one(
    store: Store, post: ScriptedPost, webhooks: Webhooks
) -> None:
    never = asyncio.Event()
    post.hold = lambda _: never.wait()
    end(store, SLOW)
    await webhooks.sender().drain(0.05)
    assert store.outbox.undelivered([execution.id for execution in store.executions()]) == 1
    post.hold = None
    await webhooks.sender().drain(10)
    assert [sent.body["event_id"] for sent in post.sent] == [post.sent[0].body["event_id"]] * 2
    assert store.outbox.next_due(mine=()) is None


class FullDisk(MemoryOutbox):
    """An outbox whose writes fail while `full` says so."""

    full: frozenset[str] = frozenset()

    def _write(self, name: str) -> None:
        if name in self.full:
            raise StoreFull("the disk is full")

    def claim(self, *args: object, **options: object) -> Delivery | None:
        self._write("claim")
        return super().claim(*args, **options)  # type: ignore[arg-type]

    def finish(self, event_id: str) -> None:
        self._write("finish")
        super().finish(event_id)


@pytest.mark.parametrize("broken", ["claim", "finish"])
async def test_a_full_disk_ends_nothing(
    store: MemoryStore, post: ScriptedPost, workers: FakeWorkers, clock: ManualClock, broken: str
) -> None:
    store.outbox = outbox = FullDisk(store._state, workers)
    outbox.full = frozenset({broken})
    end(store, QUICK)
    webhooks = Webhooks(store, post, clock)
    async with webhooks.running() as task:
        await until(lambda: broken == "claim" or len(post.sent) == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(post.sent) == (broken == "finish")  # and not again and again
        assert not task.done()
        outbox.full = frozenset()
        webhooks.changes.tell()
        await until(lambda: outbox.next_due(mine=()) is None)
    assert len({sent.body["event_id"] for sent in post.sent}) == 1

"""Which events are told to whom, once, and what becomes of it when the receiver does not take it."""

from __future__ import annotations

import json
import logging

import pytest

from agent_md.agents.spec import NotifyTarget
from agent_md.executions.deliveries import Delivery, HookEvent
from agent_md.executions.execution import HookTarget
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, CallState
from agent_md.ports.journal import Journal
from agent_md.ports.store import Store
from agent_md.webhooks.post import NotSent, Reply
from tests.support.clock import ManualClock
from tests.support.memory_store import MemoryStore
from tests.support.scenes import W1, W2, abort, approve, ask, journal_of, proposal, record, succeed, tool
from tests.support.webhooks import DELAY_S, ScriptedPost, Webhooks, hooked
from tests.support.workers import FakeWorkers

A = NotifyTarget("https://a.example/hook?key=path-secret", "${TOKEN}", "${SECRET}")
PLAIN = NotifyTarget("https://a.example/hook")
HOOK = HookTarget("https://c.example/hook", "c-token", "c-secret", include_messages=True)
VALUES = {"TOKEN": "t0ken", "SECRET": "s3cret"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return MemoryStore(workers=FakeWorkers(W1, W2), clock=clock)


@pytest.fixture
def post() -> ScriptedPost:
    return ScriptedPost()


@pytest.fixture
def webhooks(store: Store, post: ScriptedPost, clock: ManualClock) -> Webhooks:
    return Webhooks(store, post, clock, environment=VALUES)


def end(store: Store, execution_id: ExecutionId, *, well: bool = True) -> None:
    journal = journal_of(store, store.execution(execution_id))
    succeed(journal) if well else abort(journal)


def wait_for_answers(store: Store, execution_id: ExecutionId, count: int = 1) -> list[RequestId]:
    """Parks an execution with requests."""
    journal = journal_of(store, store.execution(execution_id))
    ids = ask(journal, count=count)
    assert journal.park([frozenset({request_id}) for request_id in ids])
    return ids


def cut_off(store: Store, execution_id: ExecutionId, count: int = 1) -> Journal:
    """Calls that ended without anybody knowing how."""
    journal = journal_of(store, store.execution(execution_id))
    record(journal, calls=[proposal(0, index) for index in range(count)])
    for index in range(count):
        at = Position(0, index)
        journal.finish_call(
            at, CallState.UNKNOWN, CallOutcome.UNKNOWN, "may have run", tool("may have run", f"call-{at}")
        )
    return journal


class TestWhoIsTold:
    async def test_an_end_well_and_one_that_failed(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        done, failed = hooked(store, A, session_id="s"), hooked(store, A)
        end(store, done.id)
        clock.advance(1)
        end(store, failed.id, well=False)
        assert await webhooks.deliver_due() == 2
        assert [(s.body["event"], s.body["session_id"], s.body["status"]) for s in post.sent] == [
            ("turn.completed", "s", "idle"),
            ("turn.failed", None, "error"),
        ]
        assert post.sent[0].body["response"] == {"role": "assistant", "content": "All done."}
        assert post.sent[1].body["error"] == "cancelled"
        assert post.sent[0].headers["Authorization"] == "Bearer t0ken"
        assert post.sent[0].headers["webhook-id"] == post.sent[0].body["event_id"]
        assert "webhook-signature" in post.sent[0].headers

    async def test_each_target_and_only_the_events_that_it_wants(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks
    ) -> None:
        execution = hooked(
            store, PLAIN, NotifyTarget("https://b.example/", events=("turn.failed",)), hook=HOOK, session_id="s"
        )
        end(store, execution.id)
        await webhooks.deliver_due()
        assert {sent.url for sent in post.sent} == {PLAIN.url, HOOK.url}
        assert len({sent.body["event_id"] for sent in post.sent}) == 2
        (mine,) = [sent for sent in post.sent if sent.url == HOOK.url]
        assert mine.headers["Authorization"] == "Bearer c-token"
        assert [message["role"] for message in mine.body["messages"]] == ["user"]
        (other,) = [sent for sent in post.sent if sent.url == PLAIN.url]
        assert "messages" not in other.body
        assert "Authorization" not in other.headers
        assert store.outbox.target(execution.id) is None  # what came with the message is not kept

    async def test_calls_that_may_have_run_are_told_together_and_again_with_the_end(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks
    ) -> None:
        execution = hooked(store, PLAIN, NotifyTarget("https://b.example/", events=("turn.failed",)), hook=HOOK)
        journal = cut_off(store, execution.id, 2)
        assert await webhooks.deliver_due() == 1
        (told,) = post.sent
        assert (told.url, told.body["event"], told.body["status"]) == (PLAIN.url, "call.unknown", "running")
        assert [(c["position"], c["tool_name"]) for c in told.body["calls"]] == [
            ("0.0", "file_read"),
            ("0.1", "file_read"),
        ]
        assert told.body["calls"][0]["tool_args"] == {"path": "a.md"}
        store.settle_call(execution.id, Position(0, 0), ran=True, note=None, by="api")
        succeed(journal)
        await webhooks.deliver_due()
        ends = {sent.url: sent.body for sent in post.sent[1:]}
        assert set(ends) == {PLAIN.url, HOOK.url}
        assert {body["event"] for body in ends.values()} == {"turn.completed"}
        assert [[c["position"] for c in body["calls"]] for body in ends.values()] == [["0.1"], ["0.1"]]

    async def test_a_call_that_was_settled_is_not_told(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks
    ) -> None:
        execution = hooked(store, PLAIN)
        succeed(cut_off(store, execution.id))
        store.settle_call(execution.id, Position(0, 0), ran=False, note=None, by="api")
        await webhooks.deliver_due()
        assert post.events == ["turn.completed"]
        assert "calls" not in post.sent[0].body

    async def test_of_a_session_that_was_deleted_no_messages(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks
    ) -> None:
        execution = hooked(store, hook=HOOK, session_id="s")
        store.sessions.delete("writer", "s", by="api")
        end(store, execution.id, well=False)
        await webhooks.deliver_due()
        assert (post.events, post.sent[0].body["messages"]) == (["turn.failed"], [])

    async def test_nobody_of_children_and_of_agents_without_targets(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks
    ) -> None:
        parent = hooked(store)
        child = hooked(store, A, parent_id=parent.id)
        end(store, child.id)
        end(store, parent.id)
        assert await webhooks.deliver_due() == 0
        assert post.sent == []

    async def test_once_also_by_another_process(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        execution = hooked(store, A)
        end(store, execution.id)
        other = Webhooks(store, post, clock, worker=W2, environment=VALUES)
        other.deriver.catch_up()
        assert await webhooks.deliver_due() + await other.deliver_due() == 1
        end(store, hooked(store, A).id)
        assert await other.deliver_due() + await webhooks.deliver_due() == 1
        assert len({sent.body["event_id"] for sent in post.sent}) == 2

    async def test_all_of_many_events(self, store: Store, post: ScriptedPost, webhooks: Webhooks) -> None:
        for number in range(230):
            end(store, hooked(store, *([A] if number % 2 else [])).id)
        assert await webhooks.deliver_due() == 115
        assert await webhooks.deliver_due() == 0

    def test_a_cursor_far_behind_moves_without_anything_to_tell(self, store: Store, webhooks: Webhooks) -> None:
        journal = journal_of(store, hooked(store))
        for turn in range(1100):
            record(journal, turn)
        webhooks.deriver.catch_up()
        assert store.outbox.cursor() == store.last_event()
        record(journal, 1100)
        webhooks.deriver.catch_up()
        assert store.outbox.cursor() == store.last_event() - 1  # not for so little

    async def test_an_end_of_long_ago_is_no_news(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        execution = hooked(store, A, hook=HOOK)
        end(store, execution.id)
        clock.advance(25 * 3600)
        await webhooks.deliver_due()
        assert post.sent == []
        assert (store.outbox.target(execution.id), store.outbox.next_due(mine=())) == (None, None)


class TestInterrupts:
    async def test_after_the_delay(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        execution = hooked(store, A, session_id="s")
        (request_id,) = wait_for_answers(store, execution.id)
        assert await webhooks.deliver_due() == 0
        clock.advance(DELAY_S)
        assert await webhooks.deliver_due() == 1
        body = post.sent[0].body
        assert (body["event"], body["status"], body["session_id"]) == ("interrupt.requested", "interrupted", "s")
        (told,) = body["interrupts"]
        assert (told["interrupt_id"], told["type"]) == (request_id, "tool_approval")

    async def test_one_that_was_answered_meanwhile_is_not_told(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        execution = hooked(store, A, hook=HOOK)
        (request_id,) = wait_for_answers(store, execution.id)
        webhooks.deriver.catch_up()
        store.record_answers([approve(request_id)], by="cli:ann")
        clock.advance(DELAY_S)
        assert await webhooks.deliver_due() == 2
        assert (post.sent, store.outbox.next_due(mine=())) == ([], None)

    async def test_one_of_a_cancelled_execution_is_not_told(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        execution = hooked(store, A)
        wait_for_answers(store, execution.id)
        store.request_cancel(execution.id, "cli:ann")
        claim = store.claim_to_cancel(execution.id, W1)
        assert claim is not None
        abort(store.journal(claim), "cli:ann")
        clock.advance(DELAY_S)
        await webhooks.deliver_due()
        assert post.events == ["turn.failed"]

    async def test_several_are_told_together(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        ids = wait_for_answers(store, hooked(store, A).id, count=3)
        clock.advance(DELAY_S)
        assert await webhooks.deliver_due() == 1
        assert [told["interrupt_id"] for told in post.sent[0].body["interrupts"]] == ids

    async def test_several_that_were_begun_at_once_too(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        wait_for_answers(store, hooked(store, A).id, count=3)
        webhooks.deriver.catch_up()
        clock.advance(DELAY_S)
        taken: list[Delivery] = []
        while (delivery := webhooks.claim(tuple(d.event_id for d in taken))) is not None:
            taken.append(delivery)
        for delivery in taken:
            await webhooks.attempts.make(delivery)
        assert (len(taken), len(post.sent)) == (3, 1)

    async def test_what_is_left_is_told_when_the_first_was_answered(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        first, second = wait_for_answers(store, hooked(store, A).id, count=2)
        store.record_answers([approve(first)], by="cli:ann")
        clock.advance(DELAY_S)
        await webhooks.deliver_due()
        assert [[told["interrupt_id"] for told in sent.body["interrupts"]] for sent in post.sent] == [[second]]

    async def test_one_whose_answer_was_retracted_is_told_as_a_new_one(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        execution = hooked(store, PLAIN)
        [asked] = wait_for_answers(store, execution.id)
        store.record_answers([approve(asked)], by="cli:ann")
        clock.advance(DELAY_S)
        again = store.retract(asked, by="cli:bob").replaced_by
        assert await webhooks.deliver_due() == 1  # of the first, which is not told any more
        assert post.sent == []
        clock.advance(DELAY_S)
        await webhooks.deliver_due()
        assert [[told["interrupt_id"] for told in sent.body["interrupts"]] for sent in post.sent] == [[again]]

    async def test_however_long_no_server_was_there(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        wait_for_answers(store, hooked(store, A).id)
        clock.advance(30 * 24 * 3600)
        assert await webhooks.deliver_due() == 1
        assert post.events == ["interrupt.requested"]

    async def test_it_is_not_repeated_once_it_is_decided(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        (request_id,) = wait_for_answers(store, hooked(store, A).id)
        clock.advance(DELAY_S)
        post.replies = [Reply(500)]
        await webhooks.deliver_due()
        store.record_answers([approve(request_id)], by="cli:ann")
        clock.advance(60)
        await webhooks.deliver_due()
        assert (len(post.sent), store.outbox.next_due(mine=())) == (1, None)


class TestAgain:
    async def test_the_same_until_it_is_taken(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        end(store, hooked(store, A, session_id="s").id)
        post.replies = [NotSent("the connection failed"), Reply(500), Reply(404), Reply(302)]
        for wait in (0, 2, 4, 8, 16):
            clock.advance(wait)
            assert await webhooks.deliver_due() == 1
            assert await webhooks.deliver_due() == 0
        assert len(post.sent) == 5
        assert {json.dumps(sent.body) for sent in post.sent} == {json.dumps(post.sent[0].body)}
        stamps = [int(sent.headers["webhook-timestamp"]) for sent in post.sent]
        assert [late - stamps[0] for late in stamps] == [0, 2, 6, 14, 30]
        assert len({sent.headers["webhook-signature"] for sent in post.sent}) == 5

    async def test_for_an_hour(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        end(store, hooked(store, hook=HOOK).id)
        webhooks.deriver.catch_up()
        begun = clock.now
        post.replies = [Reply(500)] * 100
        while (due := store.outbox.next_due(mine=())) is not None:
            clock.now = max(clock.now, due)
            await webhooks.deliver_due()
        assert clock.now == begun + 3600
        assert 15 <= len(post.sent) <= 25
        assert "given up after" in caplog.text
        assert store.outbox.target(ExecutionId(1)) is None

    async def test_across_a_restart(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock
    ) -> None:
        end(store, hooked(store, A).id)
        post.replies = [Reply(500)]
        await webhooks.deliver_due()
        clock.advance(2 * 3600)
        later = Webhooks(store, post, clock, worker=W2, environment=VALUES)
        post.replies = [Reply(500)]
        assert await later.deliver_due() == 1  # one last time
        assert store.outbox.next_due(mine=()) is None
        assert post.sent[0].body == post.sent[1].body

    @pytest.mark.parametrize(("status", "wait"), [(429, 60), (503, 60), (500, 2)])
    async def test_the_receiver_asks_for_time(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock, status: int, wait: int
    ) -> None:
        end(store, hooked(store, A).id)
        post.replies = [Reply(status, retry_after=60.0)]
        await webhooks.deliver_due()
        assert store.outbox.next_due(mine=()) == clock.now + wait

    async def test_not_when_the_receiver_is_gone(self, store: Store, post: ScriptedPost, webhooks: Webhooks) -> None:
        end(store, hooked(store, A, hook=HOOK).id)
        post.replies = [Reply(410), Reply(410)]
        await webhooks.deliver_due()
        assert store.outbox.next_due(mine=()) is None
        assert store.outbox.target(ExecutionId(1)) is None

    async def test_when_a_variable_is_missing_nothing_is_sent_unsigned(
        self, store: Store, post: ScriptedPost, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        end(store, hooked(store, A).id)
        await Webhooks(store, post, clock, environment={"TOKEN": "t0ken"}).deliver_due()
        assert post.sent == []
        assert "SECRET" in caplog.text
        clock.advance(10)
        await Webhooks(store, post, clock, environment=VALUES).deliver_due()
        assert len(post.sent) == 1

    async def test_an_error_of_ours_is_an_attempt_that_failed(
        self, store: Store, post: ScriptedPost, clock: ManualClock
    ) -> None:
        def broken() -> dict[str, str]:
            raise RuntimeError("no environment")

        end(store, hooked(store, A).id)
        await Webhooks(store, post, clock, looked_up=broken).deliver_due()
        assert post.sent == []
        assert store.outbox.next_due(mine=()) == clock.now + 2


class TestSecrets:
    async def test_no_log_has_any(
        self, store: Store, post: ScriptedPost, webhooks: Webhooks, clock: ManualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        for reply in (Reply(500), NotSent("no answer"), RuntimeError("t0ken s3cret c-token"), Reply(204), Reply(410)):
            post.replies = [reply, reply]
            end(store, hooked(store, A, hook=HOOK).id)
            await webhooks.deliver_due()
            clock.advance(10)
        assert "https://a.example:443" in caplog.text
        for secret in (*VALUES.values(), "c-token", "c-secret", "path-secret"):
            assert secret not in caplog.text


def test_events_are_those_of_the_agent_file() -> None:
    assert [str(event) for event in HookEvent] == [
        *("turn.completed", "turn.failed", "interrupt.requested", "call.unknown")
    ]

"""Any store: executions as created and listed, their events, and what others see."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from agent_md.errors import ConversationWaiting, UnknownExecution
from agent_md.executions.execution import NewExecution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import EventType, Outcome, Status, TriggerKind
from agent_md.ports.journal import ExecutionEnd
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import (
    SPEC,
    W1,
    W2,
    abort,
    approve,
    ask,
    begin,
    deny,
    gate_request,
    human,
    journal_of,
    parked,
    proposal,
    record,
    snapshot,
    succeed,
)
from tests.support.workers import FakeWorkers

NOBODY = ExecutionId(4711)


class TestCreate:
    def test_without_a_worker_it_is_queued(self, store: Store, clock: ManualClock) -> None:
        execution = begin(store, worker=None)
        assert execution.status is Status.QUEUED
        assert (execution.worker, execution.epoch, execution.attempts) == (None, 0, 0)
        assert (execution.created_at, execution.started_at, execution.finished_at) == (clock.now, None, None)

    def test_with_a_worker_it_is_running_with_epoch_1(self, store: Store, clock: ManualClock) -> None:
        execution = begin(store, worker=W1)
        assert execution.status is Status.RUNNING
        assert (execution.worker, execution.epoch, execution.attempts) == (W1, 1, 0)
        assert execution.started_at == clock.now

    def test_it_starts_with_no_work_no_usage_and_no_end(self, store: Store) -> None:
        execution = begin(store)
        assert (execution.work_ms, execution.usage.total_tokens, execution.usage.cost_usd) == (0, 0, 0.0)
        assert (execution.error, execution.output, execution.cancelled_by) == (None, None, None)

    def test_what_was_asked_for_is_kept(self, store: Store) -> None:
        parent = begin(store, agent="boss")
        new = NewExecution("writer", TriggerKind.AGENT, (human("Hello"),), "chat-1", parent.id)
        created = store.create(new, spec=SPEC, spec_digest="d1", skip_if_waiting=False, worker=None)
        assert (created.agent, created.trigger, created.session_id) == ("writer", TriggerKind.AGENT, "chat-1")
        assert (created.parent_id, created.spec_digest) == (parent.id, "d1")

    def test_what_it_gives_is_what_is_stored(self, store: Store) -> None:
        created = begin(store)
        assert store.execution(created.id) == created

    def test_ids_count_up(self, store: Store) -> None:
        ids = [begin(store).id for _ in range(3)]
        assert ids == sorted(set(ids))

    def test_system_and_human_events_come_first(self, store: Store, clock: ManualClock) -> None:
        execution = begin(store, session_id="chat-1", text="Write it")
        system, asked = store.events(execution.id)
        assert (system.key, system.type, system.message) == ("system", EventType.SYSTEM, "Started")
        assert (asked.key, asked.type, asked.message) == ("human", EventType.HUMAN, "Write it")
        assert asked.data == {"message": human("Write it")}
        assert (system.at, asked.at) == (clock.now, clock.now)
        assert (system.execution_id, asked.execution_id) == (execution.id, execution.id)

    def test_the_system_event_says_what_started(self, store: Store) -> None:
        execution = begin(store, agent="writer", session_id="chat-1")
        data = store.events(execution.id)[0].data
        assert set(data) == {"agent", "model", "trigger", "session_id"}
        assert (data["agent"], data["trigger"], data["session_id"]) == ("writer", "manual", "chat-1")
        assert data["model"] == json.loads(SPEC)["model"]

    def test_a_spec_without_a_model_has_none_in_its_event(self, store: Store) -> None:
        execution = begin(store, spec="{}")
        assert store.events(execution.id)[0].data.get("model") is None

    def test_the_seed_is_kept_whole_and_its_last_message_is_the_human_event(self, store: Store) -> None:
        seed = (human("before"), {"type": "ai", "data": {"content": "answer", "id": "a"}}, human("now"))
        new = NewExecution("writer", TriggerKind.CHAT, seed)
        execution = store.create(new, spec=SPEC, spec_digest="d", skip_if_waiting=True, worker=None)
        assert store.seed(execution.id) == list(seed)
        assert store.events(execution.id)[1].data == {"message": human("now")}

    def test_the_spec_is_kept_as_it_was(self, store: Store) -> None:
        text = '{"b": 1,  "a":"ä\\u0000"}'
        assert store.spec(begin(store, spec=text).id) == text


class TestConversationRule:
    """With `skip_if_waiting`, an open request in the same conversation refuses."""

    @pytest.mark.parametrize(
        ("new", "waits", "admitted"),
        [
            ("A", "A", False),
            ("A", "B", True),
            ("A", None, True),
            (None, None, False),
            (None, "B", True),
        ],
    )
    def test_which_conversations_are_closed(
        self, store: Store, new: str | None, waits: str | None, admitted: bool
    ) -> None:
        waiting, _ = parked(store, session_id=waits)
        if admitted:
            assert begin(store, session_id=new, skip=True).status is Status.RUNNING
            return
        with pytest.raises(ConversationWaiting) as refused:
            begin(store, session_id=new, skip=True)
        assert refused.value.waiting == (waiting.id,)

    def test_a_refused_one_is_not_created(self, store: Store) -> None:
        waiting, _ = parked(store)
        with pytest.raises(ConversationWaiting):
            begin(store, skip=True)
        assert [execution.id for execution in store.executions()] == [waiting.id]

    def test_all_that_wait_are_named(self, store: Store) -> None:
        ids = {parked(store)[0].id for _ in range(2)}
        with pytest.raises(ConversationWaiting) as refused:
            begin(store, skip=True)
        assert set(refused.value.waiting) == ids
        assert len(refused.value.waiting) == 2

    def test_one_that_waits_for_several_answers_is_named_once(self, store: Store) -> None:
        waiting, _ = parked(store, count=2)
        with pytest.raises(ConversationWaiting) as refused:
            begin(store, skip=True)
        assert refused.value.waiting == (waiting.id,)

    def test_another_agent_is_another_conversation(self, store: Store) -> None:
        parked(store, agent="reader")
        assert begin(store, agent="writer", skip=True).status is Status.RUNNING

    def test_a_running_one_with_an_open_request_refuses_too(self, store: Store) -> None:
        running = begin(store)
        ask(journal_of(store, running))
        with pytest.raises(ConversationWaiting):
            begin(store, skip=True)

    def test_one_without_a_request_refuses_nothing(self, store: Store) -> None:
        begin(store)
        begin(store, worker=None)
        assert begin(store, skip=True).status is Status.RUNNING
        assert len(store.executions()) == 3

    def test_parallel_is_never_refused(self, store: Store) -> None:
        waiting, _ = parked(store)
        assert begin(store, skip=False).status is Status.RUNNING
        assert store.execution(waiting.id).status is Status.WAITING

    def test_a_child_is_never_refused(self, store: Store) -> None:
        waiting, _ = parked(store)
        child = begin(store, parent_id=waiting.id, skip=True)
        assert (child.status, child.parent_id) == (Status.RUNNING, waiting.id)

    def test_an_answered_request_refuses_no_more(self, store: Store) -> None:
        _, [asked] = parked(store)
        store.record_answers([approve(asked)], by="me")
        assert begin(store, skip=True).status is Status.RUNNING

    def test_an_ended_execution_refuses_no_more(self, store: Store) -> None:
        waiting, _ = parked(store)
        claim = store.claim_to_cancel(waiting.id, W2)
        assert claim is not None
        abort(store.journal(claim))
        assert begin(store, skip=True).status is Status.RUNNING

    def test_an_overdue_request_is_settled_first(self, store: Store, clock: ManualClock) -> None:
        waiting, [asked] = parked(store, expires_in=60)
        clock.advance(61)
        begin(store, skip=True)
        answer = store.request(asked).answer
        assert answer is not None
        assert (answer.outcome, answer.answered_by) == (Outcome.EXPIRED, "timeout")
        assert store.execution(waiting.id).status is Status.QUEUED


class TestReading:
    def test_an_unknown_execution(self, store: Store) -> None:
        with pytest.raises(UnknownExecution):
            store.execution(NOBODY)

    @pytest.mark.parametrize("read", ["seed", "spec"])
    def test_an_unknown_execution_has_no_stored_form(self, store: Store, read: str) -> None:
        with pytest.raises(UnknownExecution):
            getattr(store, read)(NOBODY)

    def test_what_was_never_stored_is_empty(self, store: Store) -> None:
        execution = begin(store)
        position = proposal().position
        assert store.model_step(execution.id, 0) is None
        assert store.call(execution.id, position) is None
        assert (store.calls(execution.id), store.requests(execution.id)) == ([], [])
        assert store.steps(execution.id, position) == {}

    def test_newest_first(self, store: Store) -> None:
        ids = [begin(store).id for _ in range(4)]
        assert [execution.id for execution in store.executions()] == ids[::-1]

    def test_newest_is_the_last_created_also_when_the_clock_goes_back(self, store: Store, clock: ManualClock) -> None:
        first = begin(store)
        clock.advance(-3600)
        second = begin(store)
        assert [execution.id for execution in store.executions()] == [second.id, first.id]

    def test_pages(self, store: Store) -> None:
        ids = [begin(store).id for _ in range(5)][::-1]
        assert [e.id for e in store.executions(limit=2)] == ids[:2]
        assert [e.id for e in store.executions(limit=2, offset=2)] == ids[2:4]
        assert [e.id for e in store.executions(offset=3)] == ids[3:]
        assert store.executions(limit=2, offset=5) == []
        assert store.executions(limit=0) == []

    def test_filters(self, store: Store) -> None:
        queued = begin(store, worker=None, agent="reader", session_id="chat-1")
        running = begin(store, agent="writer", session_id="chat-1")
        waiting, _ = parked(store, agent="writer")

        def found(**filters: Any) -> list[int]:
            return [execution.id for execution in store.executions(**filters)]

        assert found(statuses=[Status.QUEUED]) == [queued.id]
        assert found(statuses={Status.QUEUED, Status.WAITING}) == [waiting.id, queued.id]
        assert found(agent="writer") == [waiting.id, running.id]
        assert found(session_id="chat-1") == [running.id, queued.id]
        assert found(statuses=[Status.RUNNING], agent="writer", session_id="chat-1") == [running.id]
        assert found(agent="writer", limit=1, offset=1) == [running.id]
        assert found(statuses=[Status.ERROR]) == []
        assert found(agent="writ%") == []
        assert found(ids={running.id, queued.id, NOBODY}) == [running.id, queued.id]
        assert found(ids=[waiting.id, queued.id], agent="writer") == [waiting.id]
        assert found(ids=[]) == []
        assert found(agent=("writer", "reader", "nobody")) == [waiting.id, running.id, queued.id]
        assert found(agent=()) == []
        assert store.agent_names() == ["reader", "writer"]

    def test_those_since_a_time(self, store: Store, clock: ManualClock) -> None:
        first = begin(store)
        clock.advance(10)
        second = begin(store, session_id="b")
        assert [x.id for x in store.executions(since=second.created_at)] == [second.id]
        assert [x.id for x in store.executions(since=first.created_at, limit=1)] == [second.id]
        assert [x.id for x in store.executions(since=first.created_at)] == [second.id, first.id]
        assert store.executions(since=second.created_at + 1) == []

    def test_those_in_which_something_was_said(self, store: Store) -> None:
        asked, (request,) = parked(store, text="Clean up")
        store.record_answers([replace(deny(request), value={"approved": False, "reason": "Größe 5%"})], by="ann")
        failed = begin(store, session_id="b")
        journal_of(store, failed).finish(ExecutionEnd(Status.ERROR, error="The model is OVERLOADED"))

        def found(text: str, **filters: Any) -> list[int]:
            return [execution.id for execution in store.executions(containing=text, **filters)]

        for said in ("GRÖSSE 5%", "größe 5%", "clean UP", "turn 0", "A.MD", "Run file_read at 0.0?", "FILE_"):
            assert found(said) == [asked.id], said
        assert found("overloaded") == [failed.id]
        assert found("overloaded", statuses=[Status.QUEUED]) == []
        assert found("") == [failed.id, asked.id]
        for unsaid in ("reason", "5_", "%a", "ann", "\x00", "\udcff", "content"):
            assert found(unsaid) == [], unsaid
        assert found("", limit=1) == [failed.id]

    def test_counts_by_status(self, store: Store) -> None:
        begin(store, worker=None)
        begin(store, session_id="b")
        parked(store, session_id="c")
        succeed(journal_of(store, begin(store, session_id="d")))
        assert store.count([Status.WAITING]) == 1
        assert store.count([Status.QUEUED, Status.RUNNING]) == 2
        assert store.count([Status.ABORTED]) == store.count([]) == 0

    def test_what_is_given_out_is_a_copy(self, store: Store) -> None:
        execution = begin(store, text="Hello")
        store.seed(execution.id)[0]["data"]["content"] = "changed"
        store.events(execution.id)[1].data["message"] = "changed"
        assert store.seed(execution.id) == [human("Hello")]
        assert store.events(execution.id)[1].data == {"message": human("Hello")}


class TestEvents:
    def test_sequence_counts_up_over_all_executions(self, store: Store) -> None:
        first, second = begin(store), begin(store)
        record(journal_of(store, first))
        record(journal_of(store, second))
        seqs = [event.seq for execution in (first, second) for event in store.events(execution.id)]
        assert len(set(seqs)) == 6
        assert min(seqs) > 0
        assert store.events(second.id)[-1].seq == max(seqs)

    def test_in_order(self, store: Store) -> None:
        execution = begin(store)
        journal = journal_of(store, execution)
        for turn in range(11):
            record(journal, turn)
        events = store.events(execution.id)
        assert [event.seq for event in events] == sorted(event.seq for event in events)
        assert [event.key for event in events[2:]] == [f"ai:{turn}" for turn in range(11)]

    def test_after_and_limit(self, store: Store) -> None:
        execution = begin(store)
        record(journal_of(store, execution), calls=[proposal(0, 0), proposal(0, 1)])
        events = store.events(execution.id)
        assert store.events(execution.id, after=events[1].seq) == events[2:]
        assert store.events(execution.id, after=events[1].seq, limit=2) == events[2:4]
        assert store.events(execution.id, limit=3) == events[:3]
        assert store.events(execution.id, after=events[-1].seq) == []

    def test_of_one_execution_only(self, store: Store) -> None:
        first, second = begin(store), begin(store)
        assert {event.execution_id for event in store.events(first.id)} == {first.id}
        assert {event.execution_id for event in store.events(second.id)} == {second.id}

    def test_the_keys_of_an_execution_are_unique(self, store: Store) -> None:
        execution, ids = parked(store, count=2)
        claim = store.record_answers([approve(i) for i in ids], by="me", claim_for=W1).claim
        assert claim is not None
        succeed(store.journal(claim))
        keys = [event.key for event in store.events(execution.id)]
        assert len(set(keys)) == len(keys)

    def test_a_thousand_events_are_read_whole(self, store: Store) -> None:
        execution = begin(store)
        journal = journal_of(store, execution)
        calls = [proposal(0, index, request=gate_request(journal, proposal(0, index).position)) for index in range(500)]
        record(journal, calls=calls)
        seqs: list[int] = []
        while page := store.events(execution.id, after=seqs[-1] if seqs else 0, limit=100):
            seqs += [event.seq for event in page]
        assert len(seqs) == 2 + 1 + 500 + 500
        assert seqs == sorted(set(seqs))
        assert [call.position for call in store.calls(execution.id)] == [call.position for call in calls]


class TestEventsOfAll:
    def test_of_some_types_in_order(self, store: Store) -> None:
        first, second = begin(store), begin(store)
        record(journal_of(store, second))
        record(journal_of(store, first))
        everything = sorted(
            (*store.events(first.id), *store.events(second.id)),
            key=lambda event: event.seq,
        )
        assert store.all_events(list(EventType)) == everything
        assert [event.execution_id for event in store.all_events([EventType.AI])] == [second.id, first.id]
        assert store.all_events([]) == []

    def test_after_and_limit(self, store: Store) -> None:
        seqs = [event.seq for _ in range(3) for event in store.events(begin(store).id)]
        assert [event.seq for event in store.all_events(list(EventType), after=seqs[1], limit=3)] == seqs[2:5]
        assert store.all_events(list(EventType), after=seqs[-1]) == []

    def test_which_there_are(self, store: Store) -> None:
        assert store.last_event() == 0
        assert not store.has_event(1)
        first, second = begin(store), begin(store)
        seq = store.events(second.id)[-1].seq
        assert store.last_event() == seq
        assert store.has_event(seq)
        assert store.has_event(seq, second.id)
        assert not store.has_event(seq, first.id)
        assert not store.has_event(seq + 1)

    def test_whose_are_new(self, store: Store) -> None:
        assert store.touched(0) == (0, frozenset())
        first, second = begin(store), begin(store)
        middle, last = (store.events(execution.id)[-1].seq for execution in (first, second))
        assert store.touched(0) == (last, {first.id, second.id})
        assert store.touched(middle) == (last, {second.id})
        assert store.touched(last) == store.touched(last + 10) == (last, frozenset())


class TestVersion:
    def test_stands_still_without_commits(self, store: Store) -> None:
        begin(store)
        before = store.version()
        store.executions()
        store.open_requests()
        assert store.version() == before

    def test_changes_with_every_commit_of_another_connection(self, connect: Callable[[], Store]) -> None:
        watcher, other = connect(), connect()
        execution = begin(other)
        journal = journal_of(other, execution)
        asked: list[Any] = []

        def answered() -> None:
            other.record_answers([approve(asked[0])], by="me")

        commits: list[Callable[[], Any]] = [
            lambda: begin(other, worker=None),
            lambda: asked.extend(ask(journal)),
            lambda: journal.park([frozenset(asked)]),
            lambda: other.request_cancel(execution.id, "me"),
            answered,
            lambda: other.claim(execution.id, W2),
        ]
        seen = [watcher.version()]
        for commit in commits:
            commit()
            seen.append(watcher.version())
        assert all(one != other for one, other in pairwise(seen))

    def test_what_one_connection_committed_the_other_sees(self, connect: Callable[[], Store]) -> None:
        one, other = connect(), connect()
        execution, [asked] = parked(one)
        assert snapshot(other, execution.id) == snapshot(one, execution.id)
        other.record_answers([approve(asked)], by="me")
        assert one.execution(execution.id).status is Status.QUEUED


class TestWorkerRows:
    def test_a_row_makes_nobody_alive(self, store: Store, workers: FakeWorkers) -> None:
        worker = workers.start("listed")
        store.register_worker(worker, 4711)
        running = begin(store, worker=worker)
        workers.kill(worker)
        assert store.claim(running.id, W2) is not None

    def test_a_missing_row_makes_nobody_dead(self, store: Store) -> None:
        store.register_worker(W1, 4711)
        running = begin(store, worker=W1)
        store.forget_worker(W1)
        assert store.claim(running.id, W2) is None

    def test_an_id_can_come_again(self, store: Store) -> None:
        store.register_worker(W1, 1)
        store.forget_worker(W1)
        store.register_worker(W1, 2)
        assert begin(store, worker=W1).worker == W1
        store.forget_worker(W1)
        store.forget_worker(W1)
        assert begin(store, agent="other", worker=W1).worker == W1

"""Any store: how watched files were told last moves with the firings, and what executions wrote is known with its cause."""

from __future__ import annotations

import json

from agent_md.executions.execution import NewExecution
from agent_md.executions.firings import FileState, NewFiring, ToolRun, Written
from agent_md.executions.positions import Position
from agent_md.executions.requests import CallEffect
from agent_md.executions.states import TriggerKind
from agent_md.ports.store import Store
from tests.support.clock import ManualClock
from tests.support.scenes import FIRST, SPEC, W1, begin, finish_call, human, journal_of, proposal, record, succeed

WATCH = TriggerKind.WATCH
A, B = FileState("1", "sha256:a"), FileState("2", "sha256:b")


def new(key: str, hop: int = 0, agent: str = "writer") -> NewFiring:
    return NewFiring(agent=agent, trigger=WATCH, key=key, due_at=5.0, message="changed", hop=hop)


def test_a_watch_begins_with_the_files_that_are_there_and_may_begin_anew(store: Store, clock: ManualClock) -> None:
    assert store.firings.watched_files("writer") == {}
    store.firings.begin_watch("Writer", "x", {"a": A, "b": B})
    store.firings.begin_watch("other", "x", {"c": A})
    known = store.firings.followed("writer", WATCH, "x")
    assert known is not None
    assert (known.anchor, known.looked_at) == (clock.now, clock.now)
    assert store.firings.watched_files("WRITER") == {"a": A, "b": B}
    store.firings.begin_watch("writer", "y", {"b": A})
    assert store.firings.watched_files("writer") == {"b": A}
    assert store.firings.followed("writer", WATCH, "x") is None
    assert store.firings.watched_files("other") == {"c": A}


def test_its_files_change_with_its_position_and_its_firings_or_nothing_does(store: Store) -> None:
    store.firings.begin_watch("writer", "x", {"a": A, "b": B})
    at = store.firings.follow("writer", WATCH, "x").looked_at
    files = {"a": B, "b": None, "c": A}
    assert store.firings.advance("Writer", WATCH, after=at, upto=at + 5, new=[new("1", hop=3)], files=files)
    assert not store.firings.advance("writer", WATCH, after=at, upto=at + 6, new=[new("2")], files={"d": A})
    assert store.firings.watched_files("writer") == {"a": B, "c": A}
    assert [(firing.key, firing.hop) for firing in store.firings.due()] == [("1", 3)]


def effect(*pairs: tuple[str, str]) -> CallEffect:
    return CallEffect("", json.dumps(pairs))


def test_what_executions_wrote_is_known_with_all_who_have_part_in_it(store: Store, clock: ManualClock) -> None:
    first = store.firings.add(new("1", hop=2))
    created = store.create(
        NewExecution("Writer", WATCH, (human("Go"),)),
        spec=SPEC,
        spec_digest="d",
        skip_if_waiting=False,
        worker=W1,
        firing=first.id,
    )
    child = begin(store, agent="helper", parent_id=created.id)
    alone = begin(store, agent="alone")
    for execution, pairs in ((child, (("/a", "s1"), ("/b", "absent"))), (alone, (("/c", "s2"),))):
        journal = journal_of(store, execution)
        record(journal, 0, [proposal()])
        journal.start_call(FIRST, {}, effect(*pairs))
    both = frozenset({"writer", "helper"})
    expected = [Written("/a", "s1", both, 2), Written("/b", "absent", both, 2)]
    apart = Written("/c", "s2", frozenset({"alone"}), None)
    assert store.firings.written(clock.now) == [*expected, apart]
    clock.advance(5)
    succeed(journal_of(store, alone))
    assert store.firings.written(clock.now) == [*expected, apart]
    assert store.firings.written(clock.now + 1) == expected


def test_calls_that_do_not_say_what_they_write_are_known_with_their_times(store: Store, clock: ManualClock) -> None:
    firing = store.firings.add(new("1", hop=2))
    created = store.create(
        NewExecution("writer", WATCH, (human("Go"),)),
        spec=SPEC,
        spec_digest="d",
        skip_if_waiting=False,
        worker=W1,
        firing=firing.id,
    )
    for execution in (created, begin(store, agent="started-by-hand")):
        journal = journal_of(store, execution)
        record(
            journal, 0, [proposal(index=n, tool=tool) for n, tool in enumerate(("publish", "says", "later", "open"))]
        )
        journal.start_call(FIRST, {}, None)
        journal.start_call(Position(0, 1), {}, effect(("/a", "s")))
        journal.start_call(Position(0, 3), {}, None)
    begun = clock.now
    clock.advance(5)
    finish_call(journal_of(store, created))
    expected = [ToolRun("publish", 2, begun, begun + 5), ToolRun("open", 2, begun, None)]
    assert store.firings.tool_runs(begun) == expected
    succeed(journal_of(store, created))
    assert store.firings.tool_runs(begun + 5) == expected
    assert store.firings.tool_runs(begun + 6) == []

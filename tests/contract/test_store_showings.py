"""Any store: to whom which requests were shown."""

from __future__ import annotations

from agent_md.executions.ids import RequestId
from agent_md.ports.store import Store
from tests.support.scenes import approve, parked


def test_a_request_was_shown_to_those_it_was_recorded_for(store: Store) -> None:
    _, (request_id,) = parked(store)
    request = store.request(request_id)
    assert store.showings.shown([request.id], "cli:ann") == frozenset()
    store.showings.record([request, request], "cli:ann")
    store.showings.record([request], "cli:ann")
    store.showings.record([], "cli:ann")
    assert store.showings.shown([request.id, RequestId("other")], "cli:ann") == {request.id}
    assert store.showings.shown([request.id], "http:ann") == frozenset()


def test_of_a_decided_request_nothing_is_recorded(store: Store) -> None:
    _, (request_id,) = parked(store)
    request = store.request(request_id)
    store.record_answers([approve(request.id)], by="cli:ann")
    store.showings.record([store.request(request.id)], "cli:bob")
    assert store.showings.shown([request.id], "cli:bob") == frozenset()

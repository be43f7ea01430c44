"""Derives deliveries from stored events, whichever process stored them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from agent_md.agents.spec import AgentSpec
from agent_md.errors import UnknownExecution
from agent_md.executions.deliveries import HookEvent, NewDelivery, event_id_of
from agent_md.executions.execution import Event, Execution
from agent_md.executions.ids import RequestId
from agent_md.executions.states import CallOutcome, EventType, Status
from agent_md.ports.outbox import Outbox
from agent_md.ports.store import Store
from agent_md.webhooks.targets import lane_of, named_targets

__all__ = ["Deriver"]

log = logging.getLogger(__name__)

_TOLD = (EventType.COMPLETE, EventType.INTERRUPT, EventType.TOOL_RESULT)
_BATCH = 100
_FAR = 1000
"""So many events that concern nobody are read again after a restart, at most: moving the cursor is a write."""


class Deriver:
    """Follows the events of a store, and puts into the outbox what they have to tell."""

    def __init__(self, store: Store, outbox: Outbox, *, interrupt_delay: Callable[[], float]) -> None:
        """A request is told once it has been open for `interrupt_delay()` seconds."""
        self._store = store
        self._outbox = outbox
        self._delay = interrupt_delay
        self._cursor: int | None = None
        self._seen = 0

    def catch_up(self) -> None:
        """Derives deliveries from all events that were not processed yet. Raises StoreError; the next call continues
        there."""
        if self._cursor is None:
            self._cursor = self._seen = self._outbox.cursor()
        last = self._store.last_event()
        while self._seen < last:
            events = self._store.all_events(_TOLD, after=self._seen, limit=_BATCH)
            upto = events[-1].seq if len(events) == _BATCH else max([last, *(event.seq for event in events)])
            new = [delivery for event in events for delivery in self._deliveries(event)]
            if new or upto - self._cursor >= _FAR:
                if not self._outbox.enqueue(new, after=self._cursor, upto=upto):
                    self._cursor = None  # another process was here; see where it is at the next call
                    return
                self._cursor = upto
            self._seen = upto

    def _deliveries(self, event: Event) -> Iterator[NewDelivery]:
        try:
            execution = self._store.execution(event.execution_id)
        except UnknownExecution:
            return
        if execution.parent_id is not None:
            return
        kind, delay = _kind_of(event), 0.0
        if kind is None:
            return
        if kind is HookEvent.INTERRUPT:
            delay = self._delay()
        about = event.data["position"] if kind is HookEvent.UNKNOWN else event.data.get("request_id")
        for name, url in self._targets(execution, kind):
            yield NewDelivery(
                event_id=event_id_of(event, name),
                event=kind,
                execution_id=execution.id,
                target=name,
                lane=lane_of(url),
                event_at=event.at,
                due_at=event.at + delay,
                request_id=None if about is None else RequestId(about),
            )

    def _targets(self, execution: Execution, kind: HookEvent) -> list[tuple[str, str]]:
        hook = self._outbox.target(execution.id)
        try:
            return list(named_targets(AgentSpec.from_json(self._store.spec(execution.id)), hook, kind))
        except (ValueError, KeyError, TypeError):  # of a newer program
            log.exception("the targets of execution %s cannot be read; nobody is told of its events", execution.id)
            return []


def _kind_of(event: Event) -> HookEvent | None:
    if event.type is EventType.INTERRUPT:
        return HookEvent.INTERRUPT
    if event.type is EventType.TOOL_RESULT:
        return HookEvent.UNKNOWN if event.data.get("outcome") == CallOutcome.UNKNOWN else None
    return HookEvent.COMPLETED if event.data.get("status") == Status.SUCCESS else HookEvent.FAILED

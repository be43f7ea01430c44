"""One attempt of a delivery: its request, and the meaning of its response."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from agent_md.agents.spec import AgentSpec
from agent_md.errors import StoreError, UnknownExecution, UnknownSession
from agent_md.executions.calls import Call
from agent_md.executions.chat_messages import chat_message
from agent_md.executions.deliveries import MESSAGE_TARGET, Delivery, HookEvent
from agent_md.executions.execution import Execution, HookTarget
from agent_md.executions.requests import Request
from agent_md.executions.session_interrupts import interrupt_view, unknown_call_view
from agent_md.ports.clock import Clock
from agent_md.ports.outbox import Outbox
from agent_md.ports.store import Store
from agent_md.webhooks.body import body_of, ids_in
from agent_md.webhooks.post import NotAllowed, NotSent, Post, Reply
from agent_md.webhooks.retry_delays import next_attempt
from agent_md.webhooks.signing import headers_for
from agent_md.webhooks.targets import filled, notify_target

__all__ = ["Attempts"]

log = logging.getLogger(__name__)

_TOO_OLD_S = 24 * 3600.0
"""An end that no server was there to tell of for so long is no news."""
_GONE = 410
_ASKS_TO_WAIT = (429, 503)


class _Moot(Exception):
    """There is nothing to tell any more; the text says why."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """Makes attempts at deliveries that this process has taken."""

    store: Store
    outbox: Outbox
    environment: Callable[[], Mapping[str, str]]
    """Where the values of placeholders are."""
    post: Post
    clock: Clock
    chance: Callable[[], float] = random.random
    """Spreads the attempts; 0 to 1."""

    async def make(self, delivery: Delivery) -> str | None:
        """Sends a delivery and records what came of it: done, to be repeated, or given up. Gives why its address must
        not be reached, so that it is of no use to repeat it soon; None else.

        Nothing is lost if this is cut at any point: the delivery stays in the outbox until its answer is recorded.
        Raises StoreError when that cannot be done; else never.
        """
        try:
            body = self._body(delivery).encode()
            reply = await self._send(delivery, body)
        except _Moot as why:
            log.info("%s: not sent: %s", _shown(delivery), why)
            self.outbox.finish(delivery.event_id)
        except NotSent as why:
            self._again(delivery, str(why), None)
            return str(why) if isinstance(why, NotAllowed) else None
        except StoreError:
            raise
        except Exception:
            log.exception("%s: an error of agentmd", _shown(delivery))
            self._again(delivery, "it could not be made", None)
        else:
            self._judge(delivery, reply)
            if 200 <= reply.status < 300:
                self._record_shown(delivery, body)
        return None

    def _record_shown(self, delivery: Delivery, body: bytes) -> None:
        """Who is told by webhook answers over HTTP, mostly without a name."""
        if delivery.event is HookEvent.INTERRUPT:
            told = ids_in(body.decode())
            requests = self.store.requests(delivery.execution_id, family=True)
            self.store.showings.record([request for request in requests if request.id in told], "api")

    async def _send(self, delivery: Delivery, body: bytes) -> Reply:
        try:
            target = self._target(delivery)
            headers = headers_for(delivery.event_id, body, int(self.clock()), token=target.token, secret=target.secret)
        except ValueError as error:
            raise NotSent(str(error)) from None
        try:
            return await self.post(target.url, headers, body)
        except NotSent:
            raise
        except Exception as error:  # its text may hold what was to be sent
            raise NotSent(f"it could not be sent ({type(error).__name__})") from None

    def _judge(self, delivery: Delivery, reply: Reply) -> None:
        if 200 <= reply.status < 300:
            log.info("%s: delivered (HTTP %s)", _shown(delivery), reply.status)
            self.outbox.finish(delivery.event_id)
        elif reply.status == _GONE:
            log.warning("%s: given up: the receiver is gone (HTTP 410)", _shown(delivery))
            self.outbox.finish(delivery.event_id)
        else:
            redirect = ", a redirect, which is not followed" if 300 <= reply.status < 400 else ""
            wait = reply.retry_after if reply.status in _ASKS_TO_WAIT else None
            self._again(delivery, f"HTTP {reply.status}{redirect}", wait)

    def _again(self, delivery: Delivery, why: str, retry_after: float | None) -> None:
        now = self.clock()
        at = next_attempt(delivery, now, retry_after=retry_after, chance=self.chance())
        if at is None:
            log.warning("%s: given up after %s attempts: %s", _shown(delivery), delivery.attempts, why)
            self.outbox.finish(delivery.event_id)
            return
        level = logging.WARNING if delivery.attempts == 1 else logging.INFO
        log.log(level, "%s: %s; next attempt in %.0f s", _shown(delivery), why, at - now)
        self.outbox.postpone(delivery.event_id, at)

    def _target(self, delivery: Delivery) -> HookTarget:
        if delivery.target == MESSAGE_TARGET:
            target = self.outbox.target(delivery.execution_id)
            if target is None:
                raise _Moot("its target is no longer there")
            return target
        return filled(notify_target(self._spec(delivery), delivery.target), self.environment())

    def _spec(self, delivery: Delivery) -> AgentSpec:
        return AgentSpec.from_json(self.store.spec(delivery.execution_id))

    def _body(self, delivery: Delivery) -> str:
        """What is sent; made before the first attempt, and kept for the next ones."""
        try:
            execution = self.store.execution(delivery.execution_id)
            still_open = [request for request in self.store.requests(execution.id, family=True) if request.open]
            unknown = [call for call in self.store.calls(execution.id) if call.unsettled]
        except UnknownExecution:
            raise _Moot("its execution is no longer there") from None
        self._check_news(delivery, {request.id for request in still_open}, {str(call.position) for call in unknown})
        if delivery.body is not None:
            return delivery.body
        body = self._new_body(delivery, execution, still_open, unknown)
        if not self.outbox.freeze(delivery.event_id, body, told=ids_in(body)):
            raise _Moot("another delivery tells it")
        return body

    def _new_body(
        self, delivery: Delivery, execution: Execution, still_open: list[Request], unknown: list[Call]
    ) -> str:
        interrupts = []
        if delivery.event is HookEvent.INTERRUPT:
            for request in still_open:
                call = self.store.call(request.execution_id, request.position)
                assert call is not None
                interrupts.append(interrupt_view(request, call))
        hook = self.outbox.target(execution.id) if delivery.target == MESSAGE_TARGET else None
        return body_of(
            delivery.event,
            delivery.event_id,
            execution,
            interrupts=interrupts,
            calls=[unknown_call_view(call) for call in unknown],
            messages=self._messages(execution) if hook is not None and hook.include_messages else None,
        )

    def _messages(self, execution: Execution) -> list[dict[str, Any]]:
        """The conversation as it is now; nothing of a session that was deleted."""
        if execution.session_id is None:
            return []
        try:
            stored = self.store.sessions.messages(execution.agent, execution.session_id)
        except UnknownSession:
            return []
        return [chat_message(message) for message in stored]

    def _check_news(self, delivery: Delivery, still_open: Set[str], unknown: Set[str]) -> None:
        told = {delivery.request_id} if delivery.body is None else ids_in(delivery.body)
        match delivery.event:
            case HookEvent.INTERRUPT:
                if told.isdisjoint(still_open):
                    raise _Moot("what it asks is decided")
            case HookEvent.UNKNOWN:
                if told.isdisjoint(unknown):
                    raise _Moot("what it tells of is settled")
            case _:
                if delivery.attempts == 1 and self.clock() - delivery.event_at > _TOO_OLD_S:
                    raise _Moot("it ended more than a day ago")


def _shown(delivery: Delivery) -> str:
    """The delivery as logs name it; of its address nothing that could be secret."""
    return (
        f"webhook {delivery.event_id} ({delivery.event}, execution {delivery.execution_id}, {delivery.target}) "
        f"to {delivery.lane}"
    )

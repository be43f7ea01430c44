"""What webhooks need around them: agents with targets, a receiver without a network, changes that a test makes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent_md.agents.spec import AgentSpec, ModelRef, NotifyTarget
from agent_md.executions.deliveries import Delivery
from agent_md.executions.execution import Execution, HookTarget, NewExecution
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.states import TriggerKind
from agent_md.ports.store import Store
from agent_md.webhooks.attempts import Attempts
from agent_md.webhooks.derive import Deriver
from agent_md.webhooks.post import Post, Reply
from agent_md.webhooks.sender import WebhookSender
from tests.support.clock import ManualClock
from tests.support.scenes import W1, human

__all__ = ["DELAY_S", "ManualChanges", "ScriptedPost", "Sent", "Webhooks", "hooked"]

DELAY_S = 5.0


def hooked(
    store: Store,
    *notify: NotifyTarget,
    hook: HookTarget | None = None,
    session_id: str | None = None,
    parent_id: ExecutionId | None = None,
) -> Execution:
    """An execution that W1 drives, of an agent with these targets."""
    spec = AgentSpec("writer", "Write.", ModelRef("script", "m"), notify=notify)
    new = NewExecution(spec.name, TriggerKind.API, (human("Hi"),), session_id, parent_id, hook=hook)
    return store.create(new, spec=spec.to_json(), spec_digest=spec.digest, skip_if_waiting=False, worker=W1)


@dataclass(frozen=True)
class Sent:
    url: str
    headers: dict[str, str]
    body: dict[str, Any]


class ScriptedPost:
    """The `Post` port: gives or raises `replies` in turn, and then says 204. `hold` is awaited before, by url."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.replies: list[Reply | Exception] = []
        self.hold: Callable[[str], Awaitable[object]] | None = None

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        self.sent.append(Sent(url, dict(headers), json.loads(body)))
        if self.hold is not None:
            await self.hold(url)
        reply = self.replies.pop(0) if self.replies else Reply(204)
        if isinstance(reply, Exception):
            raise reply
        return reply

    @property
    def events(self) -> list[str]:
        return [sent.body["event"] for sent in self.sent]


class ManualChanges:
    """The `Changes` port: something has changed when the test says so; time alone never wakes."""

    def __init__(self) -> None:
        self.generation = 0
        self._changed = asyncio.Event()

    def tell(self) -> None:
        self.generation += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait(self, seen: int, timeout: float) -> None:
        if seen == self.generation:
            await self._changed.wait()


class Webhooks:
    """The parts of one process that sends, on a store."""

    def __init__(
        self,
        store: Store,
        post: Post,
        clock: ManualClock,
        *,
        worker: WorkerId = W1,
        environment: Mapping[str, str] | None = None,
        looked_up: Callable[[], Mapping[str, str]] | None = None,
    ) -> None:
        self.outbox = store.outbox
        self.worker = worker
        self.deriver = Deriver(store, self.outbox, interrupt_delay=lambda: DELAY_S)
        self.attempts = Attempts(
            store=store,
            outbox=self.outbox,
            environment=looked_up or (lambda: environment or {}),
            post=post,
            clock=clock,
            chance=lambda: 0.5,
        )
        self.changes = ManualChanges()
        self.clock = clock

    def claim(self, mine: tuple[str, ...] = ()) -> Delivery | None:
        self.deriver.catch_up()
        return self.outbox.claim(self.worker, mine=mine, full=())

    async def deliver_due(self) -> int:
        """Makes one attempt at each delivery that is due, one after the other; how many."""
        made = 0
        while (delivery := self.claim()) is not None:
            await self.attempts.make(delivery)
            made += 1
        return made

    def sender(self) -> WebhookSender:
        return WebhookSender(self.outbox, self.deriver, self.attempts, self.worker, clock=self.clock)

    @contextlib.asynccontextmanager
    async def running(self) -> Any:
        """A sender at work for as long as the block lasts."""
        task = asyncio.create_task(self.sender().run(self.changes))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

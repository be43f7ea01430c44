"""The background services of a server: triggers, incoming and outgoing webhooks, hot reload."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent_md.agents.spec import AgentSpec
from agent_md.executions.firings import Firing
from agent_md.executions.ids import ExecutionId

if TYPE_CHECKING:
    from agent_md.app.app import App
    from agent_md.reloading.loop import Announce
    from agent_md.reloading.setup import Reloading
    from agent_md.triggers.incoming_webhooks import HookReceiver
    from agent_md.triggers.loop import TriggerLoop
    from agent_md.triggers.start_or_skip import FiringStarter
    from agent_md.triggers.watch_loop import WatchLoop
    from agent_md.webhooks.sender import WebhookSender

__all__ = ["Services"]


class Services:
    """Builds the background services of one workspace; the caller runs them."""

    def __init__(self, app: App) -> None:
        self._app = app

    def reloading(self, announce: Announce) -> Reloading:
        """Reads changed files again while a process runs; see `follow_files`."""
        from agent_md.reloading.setup import follow_files

        return follow_files(
            self._app.agents, self._app.assembly, self._app.use_settings, announce, self._app.trust.blocked
        )

    def trigger_loop(self, started: Callable[[], object], on_skipped: Callable[[Firing], object]) -> TriggerLoop:
        """Creates firings of schedules and starts all firings. `started` is called when executions were created,
        `on_skipped`, on any thread, with each firing that was skipped."""
        from agent_md.triggers.loop import TriggerLoop
        from agent_md.triggers.schedules import Scheduler

        app = self._app
        scheduler = Scheduler(app.store.firings, lambda: app.registry)
        return TriggerLoop(scheduler, self._starter(on_skipped), started, aside=app.assembly.tool_threads.aside)

    def hook_receiver(self, on_skipped: Callable[[Firing], object]) -> HookReceiver:
        """Takes deliveries to the webhooks of agents; `on_skipped` as in `trigger_loop`."""
        from agent_md.triggers.incoming_webhooks import HookReceiver

        app = self._app

        def masked(agent: str, text: str) -> str:
            return app.assembly.redactor(app.registry.get(agent).spec).text(text)

        return HookReceiver(app.store.firings, self._starter(on_skipped), masked=masked)

    def _starter(self, on_skipped: Callable[[Firing], object]) -> FiringStarter:
        from agent_md.triggers.start_or_skip import FiringStarter

        app = self._app

        def being_saved(agent: str) -> bool:
            return app.assembly.being_saved(app.registry.get(agent))

        return FiringStarter(app.store, app.agents.registry, app.starter.fire, on_skipped, being_saved=being_saved)

    def watch_loop(self, made: Callable[[], object]) -> WatchLoop:
        """Creates firings of changes in watched files; `made` is called when there are new ones."""
        from agent_md.triggers.watch_loop import WatchLoop
        from agent_md.triggers.watches import AgentWatch

        def watch(spec: AgentSpec) -> AgentWatch:
            return AgentWatch(spec, self._app.assembly.sandbox(spec), self._app.store.firings)

        return WatchLoop(lambda: [entry.spec for entry in self._app.registry.agents], watch, made)

    def notifies(self, execution_id: ExecutionId) -> bool:
        """Whether events of this execution are sent to any webhook."""
        store = self._app.store
        spec = AgentSpec.from_json(store.spec(execution_id))
        return bool(spec.notify) or store.outbox.target(execution_id) is not None

    def webhooks(self, *, interrupt_delay: float | None = None) -> WebhookSender:
        """Sends stored events to webhooks. `interrupt_delay` in seconds, if not as configured."""
        from agent_md.outbound.transport import GuardedTransport
        from agent_md.webhooks.attempts import Attempts
        from agent_md.webhooks.derive import Deriver
        from agent_md.webhooks.post import HttpPost
        from agent_md.webhooks.sender import WebhookSender

        app = self._app

        def delay() -> float:
            return app.settings.webhooks.interrupt_delay if interrupt_delay is None else interrupt_delay

        store = app.store
        post = HttpPost(GuardedTransport(app.trust.private_hosts))
        return WebhookSender(
            store.outbox,
            Deriver(store, store.outbox, interrupt_delay=delay),
            Attempts(store, store.outbox, lambda: app.settings.environment(), post, time.time),
            app.worker,
            clock=time.time,
        )

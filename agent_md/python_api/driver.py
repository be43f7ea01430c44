"""Driving executions from a Python program, with webhooks delivered where no server runs."""

from __future__ import annotations

import asyncio

from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from agent_md.python_api.event_sink import EventSink
from agent_md.python_api.threads import CurrentFolder

__all__ = ["Driver"]

_POLL_S = 0.05


class Driver:
    """Drives executions in this process."""

    def __init__(self, app: App, *, deliver_within: float) -> None:
        self._app = app
        self._deliver_within = deliver_within
        self._folder = CurrentFolder(app.settings.workspace)

    async def drive(self, claim: Claim, sink: EventSink) -> Execution:
        """Drives a claimed execution, with the family that it belongs to, until its root ends or waits; then delivers its
        webhooks where no server does. Returns the root."""
        with self._folder.entered():
            root = self._app.store.execution(claim.execution_id).root
            driving = asyncio.create_task(self._app.family_driver(root).drive(claim, sink))
            sink.on_failure = driving.cancel
            try:
                execution = await driving
            except asyncio.CancelledError:
                driving.cancel()
                await asyncio.wait({driving})
                sink.check()
                raise
            sink.check()
        await self._deliver_webhooks(execution.id)
        return execution

    async def close(self, execution_id: ExecutionId) -> None:
        """Ends an execution that is to be cancelled, and all below it, where no other process drives them."""
        for member in self._app.store.family(execution_id):
            claim = self._app.store.claim_to_cancel(member.id, self._app.worker)
            if claim is not None:
                with self._folder.entered():
                    await self._app.runner().advance(claim, EventSink(self._app, member.id, None))
        await self._deliver_webhooks(execution_id)

    async def _deliver_webhooks(self, execution_id: ExecutionId) -> None:
        app = self._app
        if (
            self._deliver_within > 0
            and app.services.notifies(execution_id)
            and not server_takes_over(app.settings.state_dir)
        ):
            await app.services.webhooks(interrupt_delay=0).drain(self._deliver_within)

    async def wait_until_free(self, execution_id: ExecutionId, sink: EventSink) -> None:
        """Waits until an execution that another process drives is not driven any more."""
        store = self._app.store
        while store.execution(execution_id).status is Status.RUNNING:
            sink.stored()
            sink.check()
            family = {member.id for member in store.family(store.execution(execution_id).root)}
            if any(abandoned.id in family for abandoned in store.abandoned()):
                return
            await asyncio.sleep(_POLL_S)
        sink.stored()
        sink.check()

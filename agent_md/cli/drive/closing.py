"""Cancels an execution: closes it here if nobody drives it, otherwise asks its driver to."""

from __future__ import annotations

import asyncio
import time

from agent_md.app import App
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.ports.progress import NO_PROGRESS

__all__ = ["close_cancelled"]

_PATIENCE_S = 2.0
_POLL_S = 0.05


def close_cancelled(app: App, execution_id: ExecutionId) -> Execution:
    """Ends an execution for which `Store.request_cancel` was called. Returns it when it has ended, or after two
    seconds, even if its driver has not reacted yet."""
    for member in app.store.family(execution_id):
        claim = app.store.claim_to_cancel(member.id, app.worker)
        if claim is not None:
            app.touched.add(member.id)
            asyncio.run(app.runner().advance(claim, NO_PROGRESS))
    deadline = time.monotonic() + _PATIENCE_S
    while (family := app.store.family(execution_id)) and time.monotonic() < deadline:
        if all(member.status.final for member in family):
            break
        time.sleep(_POLL_S)
    return family[0]

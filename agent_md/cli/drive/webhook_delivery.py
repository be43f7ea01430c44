"""Delivers webhooks before a command exits, if no server runs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.terminal.output import note
from agent_md.errors import AgentmdError
from agent_md.executions.deliveries import Delivery
from agent_md.visible_text import counted

__all__ = ["deliver_notifications"]

_PATIENCE_S = 10.0


def deliver_notifications(app: App) -> None:
    """Delivers what the executions of this command have to tell, for at most ten seconds, unless a server does."""
    try:
        mine = [execution_id for execution_id in app.touched if app.services.notifies(execution_id)]
        if not mine or server_takes_over(app.settings.state_dir):
            return
        # Who waits for an answer is told at once: nobody is there any more to give it.
        refused: Sequence[tuple[Delivery, str]] = ()
        with suppress(KeyboardInterrupt):
            refused = asyncio.run(app.services.webhooks(interrupt_delay=0).drain(_PATIENCE_S))
        refusals = Counter(why for delivery, why in refused if delivery.execution_id in mine)
        left = app.store.outbox.undelivered(mine) - refusals.total()
    except AgentmdError as error:
        note(f"webhooks were not delivered: {error}")
        return
    for why, count in refusals.items():
        note(f"{counted(count, 'notification')} could not be delivered: {why}")
    if left > 0:
        note(
            f"{counted(left, 'notification')} could not be delivered yet (see agentmd.log in the state folder); "
            "the next command that drives an agent with `notify` tries again, and so does a server (`agentmd start`)"
        )

"""The first messages of a retry, and the calls of the failed execution that may have had effects."""

from __future__ import annotations

import uuid
from typing import Any

from agent_md.errors import DrivenElsewhere, UsageError
from agent_md.executions.execution import Execution
from agent_md.executions.positions import place_of_call
from agent_md.executions.states import CallOutcome, Status
from agent_md.ports.store import Store

__all__ = ["calls_that_ran", "first_messages_again"]


def first_messages_again(store: Store, failed: Execution) -> tuple[dict[str, Any], ...]:
    """The system message and the human message of an execution that failed, in stored form, under a new id.

    Raises DrivenElsewhere if it has not ended, UsageError if it succeeded."""
    if failed.status is Status.RUNNING and all(free.id != failed.id for free in store.abandoned()):
        raise DrivenElsewhere(
            f"execution {failed.id} is driven by a live process; `agentmd logs -f -e {failed.id}` follows it, "
            f"`agentmd cancel {failed.id}` ends it. Nothing was started"
        )
    if not failed.status.final:
        raise DrivenElsewhere(
            f"execution {failed.id} has not ended ({failed.status}); `agentmd resume {failed.id}` goes on with it, "
            f"`agentmd cancel {failed.id}` ends it. Nothing was started"
        )
    if failed.status is Status.SUCCESS:
        raise UsageError(
            f"execution {failed.id} succeeded; `agentmd run {failed.agent}` runs its agent again. Nothing was started"
        )
    seed = store.seed(failed.id)
    human = seed[-1]
    again = {**human, "data": {**human["data"], "id": f"human:{uuid.uuid4().hex}"}}
    return (*(message for message in seed[:1] if message["type"] == "system"), again)


def calls_that_ran(store: Store, execution: Execution) -> tuple[list[str], list[str]]:
    """The calls of an execution that ran, and those that may have run, in words."""
    calls = [(call.outcome, place_of_call(call.position, call.tool)) for call in store.calls(execution.id)]
    ran = [place for outcome, place in calls if outcome is CallOutcome.DONE]
    return ran, [place for outcome, place in calls if outcome is CallOutcome.UNKNOWN]

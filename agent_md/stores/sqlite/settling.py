"""Settlements of calls that may have run: a row beside the call, written once."""

from __future__ import annotations

import time

from agent_md.errors import NothingToSettle, SettledOtherwise, UnknownCall
from agent_md.executions.calls import Call, Settlement
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.states import CallState
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import UNSETTLED

__all__ = ["HAS_UNKNOWN", "settle"]

HAS_UNKNOWN = f"x.id IN (SELECT c.execution_id FROM calls c WHERE {UNSETTLED})"
"""Of an execution `x`."""


def settle(
    db: Database, execution_id: ExecutionId, position: Position, call: Call | None, new: Settlement
) -> Settlement:
    """Records what became of a call, or finds the same recorded; `call` is that call as it is in this transaction."""
    if call is None:
        raise UnknownCall(
            f"execution {execution_id} has no call {position}; `agentmd logs -e {execution_id}` shows all"
        )
    if call.state is not CallState.UNKNOWN:
        how = f"ended as {call.outcome}" if call.state.closed else "has not ended"
        raise NothingToSettle(
            f"call {position} of execution {execution_id} ({call.tool}) {how}; only a call that may have run is settled"
        )
    if call.settlement is not None:
        if call.settlement.holds(new):
            return call.settlement
        raise _settled_otherwise(execution_id, position, call.settlement)
    db.run(
        "INSERT INTO settlements (execution_id, turn, idx, ran, note, settled_by, settled_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
        *(execution_id, position.turn, position.index, new.ran, new.note, new.settled_by, new.settled_at),
    )
    return new


def _settled_otherwise(execution_id: ExecutionId, position: Position, settled: Settlement) -> SettledOtherwise:
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(settled.settled_at))
    note = f" ({settled.note})" if settled.note else ""
    return SettledOtherwise(
        f"call {position} of execution {execution_id} was settled as {'ran' if settled.ran else 'not run'}{note} "
        f"by {settled.settled_by} at {when}; nothing was changed",
        settled.ran,
        settled.settled_by,
        settled.settled_at,
    )

"""Data about old data that can be removed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agent_md.executions.ids import ExecutionId

__all__ = ["Removable"]


@dataclass(frozen=True, slots=True)
class Removable:
    """Executions that may be removed with their children, oldest first, as it was found."""

    ids: tuple[ExecutionId, ...]
    referred: tuple[ExecutionId, ...]
    """Those that are as old, and stay because others refer to them."""
    newest: ExecutionId
    """The newest execution of all at that time; what younger ones refer to is looked at when something is removed."""
    ended_before: float

    def only(self, ids: tuple[ExecutionId, ...]) -> Removable:
        return replace(self, ids=ids)

"""Queries and removal of old data."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from agent_md.executions.ids import ExecutionId
from agent_md.executions.retention import Removable

__all__ = ["Retention"]


class Retention(Protocol):
    """What may be thrown away. A thread is a cache of its execution; which one is in use is decided here."""

    def latest(self) -> frozenset[ExecutionId]:
        """The newest execution of each agent that has neither a session nor a parent."""

    def renew_threads(self, execution_ids: Collection[ExecutionId]) -> frozenset[ExecutionId]:
        """Gives each of these that has not ended and is not `running` a new thread: whoever drives it from now on never
        looks at the old one, which may be removed at leisure. Gives those that it was done for."""

    def removable(self, ended_before: float) -> Removable:
        """The executions that may be removed with their children. They ended by then, are not the `latest` of an agent
        and not in an existing session. No webhook still has to report them, no kept execution, nor the next one of
        their conversation, starts with their messages, and none of their grants may still apply to their agent.
        """

    def remove_some(self, removable: Removable) -> tuple[list[ExecutionId], Removable]:
        """Removes the first of them that are not needed now, in one short transaction; returns which, and what is left
        to do. Their costs still count, their idempotency keys stay used, and requests for them report that they were
        removed."""

    def remove_skipped_firings(self, keep: int) -> int:
        """Removes skipped firings of an agent that has more than `keep` of them, its oldest, in one short transaction;
        gives how many, 0 = no agent has more. Where its triggers are stays as it is."""

    def give_back_some(self) -> bool:
        """Gives some of the free room of the storage back; whether there is more."""

"""Grants in the store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from agent_md.executions.grants import Grant, GrantId
from agent_md.executions.ids import ExecutionId

__all__ = ["Grants"]


class Grants(Protocol):
    """Permissions for later calls. A grant is given with an answer, by `Store.record_answers`. Once it was found to
    have expired, it never becomes active again, whatever the clock says later."""

    def usable(self, execution_id: ExecutionId) -> list[Grant]:
        """Those that hold now for an execution, oldest first: given for it, for its session as long as that lives, or for
        its agent, none of which was otherwise (`spec_digest`); neither revoked nor before their beginning nor past their end."""

    def get(self, grant_id: GrantId) -> Grant:
        """Raises UnknownGrant."""

    def listed(
        self,
        *,
        agents: Collection[str] | None = None,
        ended: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Grant]:
        """Newest first, of all agents or of these; with `ended` also those that allow nothing any more."""

    def revoke(self, grant_id: GrantId, *, by: str) -> Grant:
        """Ends a grant: it allows no calls of later messages, and no calls that have not started. A grant that has
        ended does not change. Returns it in its current state. Raises UnknownGrant."""

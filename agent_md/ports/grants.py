"""Grants in the store."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from agent_md.executions.grants import Grant, GrantId
from agent_md.executions.ids import ExecutionId

__all__ = ["Grants"]


class Grants(Protocol):
    """What humans allowed from now on. A grant is given with an answer, by `Store.record_answers`, and never comes alive
    again: one that was found to have expired stays so, whatever the clock says later."""

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
        """Ends a grant: it lets no later message's calls run unasked, nor calls that have not begun. One that has ended is
        left as it is. Gives it as it is then. Raises UnknownGrant."""

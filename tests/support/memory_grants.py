"""Grants in memory: the fake of `agent_md.ports.Grants`, held to the same contract suite as the real one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from agent_md.errors import GrantLapsed, UnknownGrant
from agent_md.executions.execution import Execution
from agent_md.executions.grants import Grant, GrantEnd, GrantId, GrantScope, NewGrant
from agent_md.executions.ids import ExecutionId
from tests.support.memory_state import MemoryState

__all__ = ["MemoryGrants"]


class MemoryGrants:
    """The `Grants` port on the tables of a `MemoryState`; `in_session` tells whether an execution is a turn of a session
    that lives."""

    def __init__(self, state: MemoryState, in_session: Callable[[Execution], bool]) -> None:
        self._state = state
        self._in_session = in_session

    def usable(self, execution_id: ExecutionId) -> list[Grant]:
        with self._state.lock:
            execution, now = self._state.execution(execution_id), self._state.now()
            return [
                grant
                for grant in self._state.grants.values()
                if grant.ended is None
                and grant.given_at <= now
                and (grant.until is None or now < grant.until)
                and (grant.agent, grant.spec_digest) == (execution.agent, execution.spec_digest)
                and self._covers(grant, execution)
            ]

    def _covers(self, grant: Grant, execution: Execution) -> bool:
        given_in = self._state.execution(grant.execution_id)
        match grant.scope:
            case GrantScope.EXECUTION:
                return given_in.id == execution.id
            case GrantScope.SESSION:
                same = given_in.session_id == execution.session_id is not None
                turns = given_in.parent_id is None is execution.parent_id
                return same and turns and self._in_session(given_in) and self._in_session(execution)
            case GrantScope.AGENT:
                return True

    def get(self, grant_id: GrantId) -> Grant:
        with self._state.lock:
            if grant_id not in self._state.grants:
                raise UnknownGrant(f"no grant has the number {grant_id}")
            return self._seen(self._state.grants[grant_id])

    def _seen(self, grant: Grant) -> Grant:
        """The grant as it is now, ended or not."""
        given_in = self._state.execution(grant.execution_id)
        if grant.ended is None and grant.until is not None and grant.until <= self._state.now():
            return replace(grant, ended=GrantEnd.EXPIRED, ended_at=grant.until)
        over = {
            GrantScope.EXECUTION: given_in.status.final,
            GrantScope.SESSION: not self._in_session(given_in),
            GrantScope.AGENT: False,
        }
        return replace(grant, ended=GrantEnd.OVER) if grant.ended is None and over[grant.scope] else grant

    def listed(
        self,
        *,
        agents: Collection[str] | None = None,
        ended: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[Grant]:
        with self._state.lock:
            found = [self._seen(grant) for grant in reversed(self._state.grants.values())]
            wanted = [
                grant for grant in found if (ended or grant.ended is None) and (agents is None or grant.agent in agents)
            ]
            return wanted[offset : None if limit is None else offset + limit]

    def revoke(self, grant_id: GrantId, *, by: str) -> Grant:
        with self._state.transaction():
            self.expire()
            self.get(grant_id)
            if self._state.grants[grant_id].ended is None:
                self._change(grant_id, ended=GrantEnd.REVOKED, ended_by=by, ended_at=self._state.now())
            return self.get(grant_id)

    def _change(self, grant_id: GrantId, **fields: object) -> None:
        self._state.version += 1
        self._state.grants[grant_id] = replace(self._state.grants[grant_id], **fields)  # type: ignore[arg-type]

    # Inside a transaction

    def expire(self) -> None:
        now = self._state.now()
        for grant in list(self._state.grants.values()):
            if grant.ended is None and grant.until is not None and grant.until <= now:
                self._change(grant.id, ended=GrantEnd.EXPIRED, ended_at=grant.until)

    def give(self, execution_id: ExecutionId, new: NewGrant, by: str) -> GrantId:
        state, now = self._state, self._state.now()
        until = None if new.lasts is None else now + new.lasts
        terms = (new.rule, new.scope, new.tool_digest)
        for grant in self.usable(execution_id):
            if (grant.rule, grant.scope, grant.tool_digest) == terms:
                if grant.until is not None and (until is None or until > grant.until):
                    self._change(grant.id, until=until, given_by=by, given_at=now)
                return grant.id
        state.last_grant += 1
        execution, grant_id = state.execution(execution_id), GrantId(state.last_grant)
        state.grants[grant_id] = Grant(
            *(grant_id, execution.agent, execution_id, execution.session_id, new.rule, new.scope),
            *(execution.spec_digest, new.tool_digest, new.tool_module, by, now, until),
        )
        return grant_id

    def first_usable(self, execution_id: ExecutionId, wanted: Sequence[GrantId]) -> Grant | None:
        self.expire()
        return next((grant for grant in self.usable(execution_id) if grant.id in wanted), None)

    def refuse_if_revoked(self, grant_id: GrantId) -> None:
        grant = self._state.grants.get(grant_id)
        if grant is not None and grant.ended is GrantEnd.REVOKED:
            raise GrantLapsed(f"grant {grant_id} was revoked by {grant.ended_by}")

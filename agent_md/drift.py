"""Detects what has changed since executions started, requests were asked and grants were given. Runs no tool code."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from agent_md.agents.registry import Registry
from agent_md.agents.rules import parse_rule
from agent_md.agents.spec import AgentSpec
from agent_md.errors import UnknownExecution
from agent_md.executions.execution import Execution
from agent_md.executions.grants import Grant, GrantId, GrantScope
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request, ToolSource
from agent_md.executions.states import Drift
from agent_md.ports.store import Store

if TYPE_CHECKING:
    from agent_md.tools.tool_modules import Source

__all__ = ["drift_of", "drift_of_grants", "spec_drift"]


def drift_of(
    requests: Collection[Request], store: Store, registry: Registry, source_of: Callable[[str], Source]
) -> dict[RequestId, tuple[Drift, ...]]:
    """What has drifted for each of the requests. Reads each file once. `source_of` returns the source of a tool module,
    or raises ModuleUnusable.

    The tool is compared only while its request is open, because only then an answer would apply to a source that was
    not shown."""
    executions = store.executions(ids={request.execution_id for request in requests})
    look = _Look(store, registry, source_of)
    specs = {execution.id: look.at_spec(execution) for execution in executions}
    return {request.id: (*specs[request.execution_id], *look.at_tool(request)) for request in requests}


def drift_of_grants(
    grants: Collection[Grant], store: Store, registry: Registry, source_of: Callable[[str], Source]
) -> dict[GrantId, tuple[Drift, ...]]:
    """What suspends each of the grants that have not ended: for executions that start now, or for its own alone. `source_of`
    as in `drift_of`."""
    look = _Look(store, registry, source_of)
    lasting = [grant for grant in grants if grant.ended is None]
    found = {grant.id: (*look.at_agent_of(grant), *look.at_tool_of(grant)) for grant in lasting}
    return {grant.id: found.get(grant.id, ()) for grant in grants}


def spec_drift(started: AgentSpec, now: AgentSpec | None) -> tuple[Drift, ...]:
    """What made the spec another one: the file, the defaults or both. `now` None: the file is gone or invalid."""
    if now is None:
        return (Drift.AGENT_FILE,)
    if started.origin is not None and started.origin.other_model:
        now = replace(now, model=started.model)
    return () if started.behaviour_digest == now.behaviour_digest else _changed(started, now)


def _changed(started: AgentSpec, now: AgentSpec) -> tuple[Drift, ...]:
    """The sources of the spec that have changed."""
    if started.origin is None or now.origin is None:
        return (Drift.AGENT_FILE,)
    parts = [Drift.AGENT_FILE] if started.origin.file != now.origin.file else []
    parts += [Drift.CONFIG] if started.origin.defaults != now.origin.defaults else []
    return tuple(parts) or (Drift.AGENT_FILE,)  # neither: it lies elsewhere now, or agentmd reads it otherwise


class _Look:
    """One look at the files, kept for all executions and requests that have the same."""

    def __init__(self, store: Store, registry: Registry, source_of: Callable[[str], Source]) -> None:
        self._store = store
        self._registry = registry
        self._source_of = source_of
        self._specs: dict[tuple[str, str], tuple[Drift, ...]] = {}
        self._sources: dict[str, str | None] = {}

    def at_spec(self, execution: Execution) -> tuple[Drift, ...]:
        key = (execution.agent, execution.spec_digest)
        if key not in self._specs:
            now = self._registry.current_spec(execution.agent)
            same = now is not None and now.digest == execution.spec_digest
            self._specs[key] = () if same else self._spec_drift(execution, now)
        return self._specs[key]

    def _spec_drift(self, execution: Execution, now: AgentSpec | None) -> tuple[Drift, ...]:
        try:
            started = AgentSpec.from_json(self._store.spec(execution.id))
        except ValueError:  # written by a newer agentmd
            return (Drift.AGENT_FILE,)
        return spec_drift(started, now)

    def at_agent_of(self, grant: Grant) -> tuple[Drift, ...]:
        """An execution goes on with the file that it started with."""
        now = self._registry.current_spec(grant.agent)
        if grant.scope is GrantScope.EXECUTION or (now is not None and now.digest == grant.spec_digest):
            return ()
        try:
            started = AgentSpec.from_json(self._store.spec(grant.execution_id))
        except (ValueError, UnknownExecution):  # written by a newer agentmd, or removed since
            return (Drift.AGENT_FILE,)
        return (Drift.AGENT_FILE,) if now is None else _changed(started, now)

    def at_tool_of(self, grant: Grant) -> tuple[Drift, ...]:
        if grant.tool_module is not None:
            return () if self._is_as(ToolSource(grant.tool_module, grant.tool_digest)) else (Drift.TOOL,)
        from agent_md.tools.builtin import declared_digests  # of no use to those who list no grants

        declared = declared_digests().get(parse_rule(grant.rule).tool, grant.tool_digest)
        return () if declared == grant.tool_digest else (Drift.TOOL,)

    def at_tool(self, request: Request) -> tuple[Drift, ...]:
        asked = request.tool_source
        if asked is None or not request.open or self._is_as(asked):
            return ()
        return (Drift.TOOL,)

    def _is_as(self, asked: ToolSource) -> bool:
        from agent_md.tools.tool_modules import ModuleUnusable

        if asked.module not in self._sources:
            try:
                self._sources[asked.module] = self._source_of(asked.module).digest
            except ModuleUnusable:
                self._sources[asked.module] = None
        return self._sources[asked.module] == asked.digest

"""The `run_agent` tool of one execution: which agents its calls may start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_md.agents.names import name_key
from agent_md.agents.spec import AgentSpec
from agent_md.errors import ToolError, UsageError
from agent_md.executions.execution import Execution, NewChild

if TYPE_CHECKING:
    from agent_md.app.app import App
    from agent_md.tools.base import Tool

__all__ = ["build_run_agent"]


def build_run_agent(app: App, spec: AgentSpec, execution: Execution | None) -> Tool:
    """The tool by which an execution calls the `agents` of its spec. Without an execution it can be looked at only."""
    from agent_md.tools.run_agent import RunAgent

    agents = app.agents.registry().descriptions(spec.agents)
    return RunAgent(agents, _AgentCalls(app, execution), app.assembly.tool_threads)


class _AgentCalls:
    """`agent_md.tools.run_agent.AgentCalls`: a child is one level below the execution that calls it."""

    def __init__(self, app: App, execution: Execution | None) -> None:
        self._app = app
        self._execution = execution

    def spec(self, agent: str) -> AgentSpec:
        above = [] if self._execution is None else self._app.store.line(self._execution.id)
        line = [execution.agent for execution in above]
        if name_key(agent) in map(name_key, line):
            path = " > ".join([*line, agent])
            raise ToolError(f"{agent} cannot be called here: it is at work above this call ({path})")
        most = self._app.settings.defaults.max_agent_depth
        if len(line) > most:
            raise ToolError(
                f"{agent} cannot be called here: it would be {len(line)} levels below {line[0]}, and "
                f"defaults.max_agent_depth is {most}"
            )
        try:
            spec = self._app.agents.registry().get(agent).spec
        except UsageError as error:
            raise ToolError(f"{agent} cannot be called: {error}") from error
        if not spec.enabled:
            raise ToolError(f"{agent} cannot be called: it is disabled")
        return spec

    def new_child(self, agent: str, arguments: list[str]) -> NewChild:
        assert self._execution is not None, "only calls of executions are run"
        self.spec(agent)
        return self._app.starter.new_child(agent, arguments, self._execution.id)

"""`run_agent`: the model has another agent do something. That agent is an execution of its own, and the call waits for its
end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects
from agent_md.agents.names import name_key
from agent_md.agents.spec import AgentSpec
from agent_md.errors import ToolError, UsageError
from agent_md.executions.execution import NewChild
from agent_md.executions.requests import CallEffect, Preview
from agent_md.sdk import Pause
from agent_md.tools.arguments import action_digest, check_arguments, object_schema, refuse_arguments
from agent_md.tools.base import Plan, Settled, SettledState, ToolOptions
from agent_md.tools.threads import ToolThreads

__all__ = ["AgentCalls", "ChildStarts", "RunAgent"]

_MOST_ARGUMENTS = 100


class ChildStarts(Pause):
    """Pauses the call until the child, which is created with the pause, has ended."""

    def __init__(self, child: NewChild) -> None:
        super().__init__()
        self.child = child


class AgentCalls(Protocol):
    """What calls of one execution may start."""

    def spec(self, agent: str) -> AgentSpec:
        """The agent as its file is now. Quick. Raises ToolError if it may not be called from here: it is gone, invalid or
        disabled, at work above the caller, or too deep."""

    def new_child(self, agent: str, arguments: list[str]) -> NewChild:
        """The execution to create, checked as every run is. Raises ToolError as `spec` does, and UsageError."""


class RunAgent:
    """Starts a child execution. Its answer, or why it has none, becomes the result of the call when it has ended."""

    name = "run_agent"
    options = ToolOptions(idempotent=True)  # nothing has happened until the child is created, and that pauses the call
    subjects_are_paths = False

    def __init__(self, agents: Mapping[str, str], calls: AgentCalls, threads: ToolThreads) -> None:
        """`agents`: the descriptions of those that may be called, by name."""
        self._names = {name_key(name): name for name in agents}
        self._calls = calls
        self._threads = threads
        listed = "; ".join(f"{name}: {text}" if text else name for name, text in agents.items())
        self.description = (
            "Has another agent do a task and gives its answer. It knows nothing of this conversation: say all it needs in "
            f"the arguments. Several calls in one message run at the same time. The agents are: {listed}"
        )
        self.parameters = object_schema(
            {"agent_name": {"type": "string", "enum": list(agents), "description": "Which agent."}},
            {
                "arguments": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": _MOST_ARGUMENTS,
                    "description": "What it is given, as on the command line: usually one text, the task.",
                }
            },
        )

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        name, arguments = args.get("agent_name"), args.get("arguments")
        if isinstance(name, str):
            known = self._names.get(name_key(name))
            if known is None:
                among = ", ".join(self._names.values())
                raise refuse_arguments(self.name, [f"agent_name: {name!r} is none of the agents, which are: {among}"])
            args = {**args, "agent_name": known}
        if isinstance(arguments, str):
            args = {**args, "arguments": [arguments]}
        checked = check_arguments(self.name, self.parameters, args)
        return {"agent_name": checked["agent_name"], "arguments": checked.get("arguments", [])}

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        return (args["agent_name"],)

    def effects(self, args: dict[str, Any]) -> Effects:
        return UNKNOWN_EFFECTS  # what the other agent does is up to its own rules

    def plan(self, args: dict[str, Any]) -> Plan:
        spec = self._calls.spec(args["agent_name"])
        digest = action_digest(self.name, args, spec.behaviour_digest)
        return Plan(digest=digest, preview=Preview(resolved=spec.source_path))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        try:
            child = await self._threads.aside(lambda: self._calls.new_child(args["agent_name"], args["arguments"]))
        except UsageError as error:
            raise ToolError(f"{args['agent_name']} cannot be run: {error}") from error
        raise ChildStarts(child)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.NOT_DONE)

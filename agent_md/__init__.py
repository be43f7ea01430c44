"""agentmd: a durable runner for AI agents written as markdown.

`Workspace` runs agents from Python; custom tools use `agent_md.sdk`. Both are loaded when they are asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_md.errors import AgentmdError
    from agent_md.executions.execution import Event, Execution
    from agent_md.executions.requests import Answer, Request
    from agent_md.executions.states import EventType, Outcome, RequestKind, Status
    from agent_md.python_api import TextDelta, Workspace

__all__ = [
    "AgentmdError",
    "Answer",
    "Event",
    "EventType",
    "Execution",
    "Outcome",
    "Request",
    "RequestKind",
    "Status",
    "TextDelta",
    "Workspace",
    "__version__",
]

__version__ = "0.1.0"


_HOMES = {
    "AgentmdError": "errors",
    "Answer": "executions.requests",
    "Event": "executions.execution",
    "EventType": "executions.states",
    "Execution": "executions.execution",
    "Outcome": "executions.states",
    "Request": "executions.requests",
    "RequestKind": "executions.states",
    "Status": "executions.states",
    "TextDelta": "python_api",
    "Workspace": "python_api",
}
"""Where each public name is defined: imported when it is asked for, since the whole takes a second."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

"""agentmd: a durable runner for AI agents written as markdown.

`Workspace` runs agents from Python; custom tools use `agent_md.sdk`. Both are loaded when they are asked for.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent_md.errors import AgentmdError
    from agent_md.executions.model import Answer, Event, EventType, Execution, Outcome, Request, RequestKind, Status
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


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = {"AgentmdError": "errors", "Workspace": "python_api", "TextDelta": "python_api"}.get(
        name, "executions.model"
    )
    return getattr(import_module(f"{__name__}.{home}"), name)

"""The Python interface: the commands `run`, `pending`, `respond`, `resume` and `cancel` as methods of a workspace.

Every method that drives an execution exists twice: `run` blocks, `arun` is awaited.
"""

from agent_md.python_api.event_sink import OnEvent, TextDelta
from agent_md.python_api.workspace import Workspace

__all__ = ["OnEvent", "TextDelta", "Workspace"]

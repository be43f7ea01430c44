"""The built-in tools of an agent, as a workspace gives them."""

from __future__ import annotations

import os
from typing import Any

from agent_md.tools.base import Tool
from agent_md.tools.builtin import builtin_tools
from agent_md.tools.long_results import ResultRead
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.run_command import CommandAccess, RunCommand, command_environment
from agent_md.tools.threads import ToolThreads
from tests.support.requests import http_request

__all__ = ["command_tool", "given_tools"]


def command_tool(sandbox: Sandbox, **environ: str) -> RunCommand:
    """`run_command` of an agent without a sandbox; `environ` are variables besides those of this process."""
    given = {**os.environ, **environ}
    return RunCommand(sandbox, CommandAccess(lambda: command_environment(given, tuple(environ))), ToolThreads())


def given_tools(sandbox: Sandbox, *rest: Any, **named: Any) -> list[Tool]:
    """What `builtin_tools` gives with these further arguments."""
    return builtin_tools(sandbox, http_request(), command_tool(sandbox), ResultRead(100_000), *rest, **named)

"""The built-in tools of every agent, and reserved tool names."""

from __future__ import annotations

from collections.abc import Callable

from agent_md.tools.ask_user import AskUser
from agent_md.tools.ask_user_question import AskUserQuestion
from agent_md.tools.base import Tool, declared_digest
from agent_md.tools.file_changes import FileDelete, FileEdit, FileMove, FileWrite
from agent_md.tools.file_search import FileSearch
from agent_md.tools.files import FileRead
from agent_md.tools.globbing import FileGlob, Hidden, nothing_hidden
from agent_md.tools.http_request import HttpRequest
from agent_md.tools.long_results import ResultRead
from agent_md.tools.memory import MEMORY_TOOLS
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.run_command import RunCommand
from agent_md.tools.threads import ToolThreads

__all__ = ["BUILTIN_NAMES", "RESERVED_NAMES", "builtin_tools", "declared_digests"]

_FILE_TOOLS = (FileRead, FileWrite, FileEdit, FileMove, FileDelete)

_FINDING_TOOLS = (FileGlob, FileSearch)

_ASKING_TOOLS = (AskUser, AskUserQuestion)

BUILTIN_NAMES: frozenset[str] = frozenset(
    {
        *(tool.name for tool in (*_FILE_TOOLS, *_FINDING_TOOLS, *_ASKING_TOOLS)),
        HttpRequest.name,
        RunCommand.name,
        ResultRead.name,
    }
)
"""The tools of `builtin_tools`."""

RESERVED_NAMES: frozenset[str] = BUILTIN_NAMES | {
    *(tool.name for tool in MEMORY_TOOLS),
    "read",
    "run_agent",
    "skill_read_file",
    "skill_run_script",
    "skill_use",
    "write",
}
"""Every name that a tool of the product has in some agent, and those of rules over effects; a custom or MCP tool that takes
one is refused."""


def declared_digests() -> dict[str, str]:
    """Of the tools of `builtin_tools` and of the memory, by name."""
    tools = (*_FILE_TOOLS, *_FINDING_TOOLS, *_ASKING_TOOLS, HttpRequest, RunCommand, ResultRead, *MEMORY_TOOLS)
    return {tool.name: declared_digest(tool) for tool in tools}


def builtin_tools(
    sandbox: Sandbox,
    http: HttpRequest,
    command: RunCommand,
    reading_on: ResultRead,
    hidden: Hidden = nothing_hidden,
    threads: ToolThreads | None = None,
    *,
    unread: Hidden | None = None,
    redact: Callable[[], Callable[[str], str]] = lambda: str,
) -> list[Tool]:
    """The file tools of one sandbox, those that ask, and the given ones. `file_glob` leaves out the files whose subject is `hidden`,
    `file_search` those that are `unread`, or hidden if nothing is said of that; `threads` are what the work with files is
    done on; `redact` gives what takes secrets out of a text."""
    tools: list[Tool] = [tool(sandbox, threads) for tool in _FILE_TOOLS]
    finding = (FileGlob(sandbox, hidden, threads), FileSearch(sandbox, unread or hidden, threads, redact))
    return [*tools, *finding, *(tool() for tool in _ASKING_TOOLS), http, command, reading_on]

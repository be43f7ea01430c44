"""Variables that a server gets from a file that its entry names."""

from __future__ import annotations

from pathlib import Path

from agent_md.agents.files import Unreadable, decode, read_file
from agent_md.agents.mcp_file import McpServer
from agent_md.env_file import parse_env_file
from agent_md.errors import ConfigInvalid

__all__ = ["file_variables"]

_MAX_BYTES = 1 << 18


def file_variables(entry: McpServer, workspace: Path) -> dict[str, str]:
    """What the `envFile` of a filled entry has; nothing without one. Raises ConfigInvalid if it cannot be read."""
    if entry.env_file is None:
        return {}
    path = workspace / entry.env_file
    try:
        return parse_env_file(decode(read_file(path, _MAX_BYTES)), str(path))
    except Unreadable as error:
        raise ConfigInvalid(f"its envFile {path} {error}") from None

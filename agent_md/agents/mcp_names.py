"""How tools of MCP servers are called: one name for models and logs, and the names by which rules mean them.

A tool is offered as `{server}__{tool}`, such as `git__git_commit`, in the characters and the length that all providers
take. A rule may say that, or `server.tool` with the names of the MCP file and of the server, or `server.*` for all.
"""

from __future__ import annotations

import hashlib
import re

__all__ = ["MOST_CHARACTERS", "fits_tool", "is_all_of", "of_server", "prefix", "public_name"]

MOST_CHARACTERS = 64
"""Of a tool's name; no provider takes more."""

_LONGEST_PREFIX = 30
_DIGEST = 8


def prefix(server: str) -> str:
    """What the names of a server's tools begin with, up to the two underscores. The prefix of a prefix is the same."""
    name = re.sub(r"[^A-Za-z0-9-]+|_+", "_", server).strip("_") or "server"
    if not name[0].isalpha():
        name = f"mcp_{name}"
    return _shortened(name, server, _LONGEST_PREFIX)


def public_name(server: str, tool: str) -> str:
    """The name under which models get the tool."""
    return _shortened(f"{prefix(server)}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}", f"{server}\n{tool}", MOST_CHARACTERS)


def is_all_of(named: str, server: str) -> bool:
    """Whether the tool part of a rule is `server.*` for this server."""
    return named.endswith(".*") and prefix(named[:-2]) == prefix(server)


def of_server(named: str, server: str) -> bool:
    """Whether the tool part of a rule can only mean tools of this server."""
    return named.startswith((f"{server}.", f"{prefix(server)}.", f"{prefix(server)}__"))


def fits_tool(named: str, tool: str) -> bool:
    """Whether the tool part of a rule means the tool with this public name."""
    if named == tool:
        return True
    if named.endswith(".*"):
        return tool.startswith(f"{prefix(named[:-2])}__")
    dots = [place for place, character in enumerate(named) if character == "."]
    return any(public_name(named[:dot], named[dot + 1 :]) == tool for dot in dots)


def _shortened(name: str, whole: str, limit: int) -> str:
    """The name in at most `limit` characters; a digest of the whole keeps apart what begins alike."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{name[: limit - _DIGEST - 1].rstrip('_')}_{digest}"

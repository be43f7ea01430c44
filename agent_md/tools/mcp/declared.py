"""What a server says of its tools, as it is stored and as models are told of it; what cannot be told is left out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_md.agents.mcp_names import public_name
from agent_md.executions.json_values import is_too_deep

__all__ = ["DeclaredTool", "declared_tools", "from_stored", "to_stored"]

MOST_TOOLS = 500
LARGEST = 1 << 16
"""Bytes of one declaration."""


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """One tool of a server: its own name there, and what a model is told. `parameters` is a JSON schema of an object."""

    server: str
    tool: str
    description: str
    parameters: dict[str, Any] = field(hash=False)

    @property
    def name(self) -> str:
        """The name under which models get it."""
        return public_name(self.server, self.tool)

    @property
    def digest(self) -> str:
        """SHA-256 of the declaration."""
        text = json.dumps([self.server, self.tool, self.description, self.parameters], sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def declared_tools(server: str, listed: Iterable[tuple[str, str, Any]]) -> tuple[list[DeclaredTool], list[str]]:
    """The tools of a server, given as name, description and schema of each, and why others are left out."""
    found: dict[str, DeclaredTool] = {}
    wrong: list[str] = []
    for name, description, schema in listed:
        tool = DeclaredTool(server, name, description, _object(schema))
        reason = _unusable(name, description, schema)
        if reason is None and tool.name in found:
            reason = f"its name is too much like that of {found[tool.name].tool!r}"
        if reason is None and len(found) >= MOST_TOOLS:
            reason = f"the server has more than {MOST_TOOLS}"
        if reason is None:
            found[tool.name] = tool
        else:
            wrong.append(f"the tool {name[:100]!r} of the MCP server {server} is left out: {reason}")
    return list(found.values()), wrong[:20]


def _unusable(name: str, description: str, schema: Any) -> str | None:
    if not name or len(name) > 200:
        return "its name is empty, or too long"
    if not isinstance(schema, Mapping) or schema.get("type", "object") != "object":
        return "its arguments are no object"
    if is_too_deep(schema):
        return "the schema of its arguments is nested too deeply"
    try:
        size = len(json.dumps([description, schema], allow_nan=False))
    except (TypeError, ValueError):
        return "the schema of its arguments is no JSON"
    return f"its declaration has {size} bytes, at most {LARGEST} are taken" if size > LARGEST else None


def _object(schema: Any) -> dict[str, Any]:
    """The schema as all providers take it: with type and properties."""
    plain = dict(schema) if isinstance(schema, Mapping) else {}
    properties = plain.get("properties")
    return {**plain, "type": "object", "properties": properties if isinstance(properties, dict) else {}}


def to_stored(tools: Iterable[DeclaredTool]) -> list[dict[str, Any]]:
    """JSON of the tools of one server."""
    return [{"tool": tool.tool, "description": tool.description, "parameters": tool.parameters} for tool in tools]


def from_stored(server: str, stored: Iterable[Mapping[str, Any]]) -> list[DeclaredTool]:
    """The tools that `to_stored` was given."""
    return [DeclaredTool(server, each["tool"], each["description"], each["parameters"]) for each in stored]

"""One tool of an MCP server, to be planned and run like any other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects
from agent_md.agents.mcp_file import McpServer
from agent_md.errors import ToolError, UsageError
from agent_md.executions.requests import CallEffect, ToolSource
from agent_md.sdk import current_call
from agent_md.tools.arguments import action_digest, check_arguments
from agent_md.tools.base import CutOff, Plan, Settled, SettledState, TargetChanged, ToolOptions
from agent_md.tools.mcp.connection import AskedAmongOthers
from agent_md.tools.mcp.declared import DeclaredTool
from agent_md.tools.mcp.elicitation import Elicitations
from agent_md.tools.mcp.results import text_of
from agent_md.tools.mcp.servers import McpServers
from agent_md.tools.results import one_line

__all__ = ["McpTool", "is_mcp_module", "mcp_module", "source_of"]

_MODULE = "mcp:"
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})


def mcp_module(tool: DeclaredTool) -> str:
    """What stands for a tool where that of a custom tool has its module."""
    return f"{_MODULE}{tool.server}.{tool.tool}"


def is_mcp_module(module: str) -> bool:
    """Whether this stands for a tool of an MCP server."""
    return module.startswith(_MODULE)


def source_of(entry: McpServer, tool: DeclaredTool) -> ToolSource:
    """What an approval is bound to: the declaration of the tool, and how its server is started or reached."""
    digest = hashlib.sha256(f"{entry.digest}\n{tool.digest}".encode()).hexdigest()
    return ToolSource(mcp_module(tool), digest)


class McpTool:
    """A tool as its execution was told of it when it began. What the server says of it since counts for approvals only:
    one that was given to another declaration does not let it run."""

    subjects_are_paths = False

    def __init__(self, declared: DeclaredTool, entry_of: Callable[[str], McpServer], servers: McpServers) -> None:
        """`entry_of` gives the entry of a server in the MCP file as it is now, if it may be used. Raises UsageError."""
        self._declared = declared
        self._entry_of = entry_of
        self._servers = servers
        self.server = declared.server
        self.tool = declared.tool
        self.name = declared.name
        self.description = declared.description
        self.parameters = declared.parameters
        self._shape = _outline(declared.parameters)

    @property
    def options(self) -> ToolOptions:
        """What the MCP file says of it; what the server says of it changes nothing."""
        try:
            return ToolOptions(idempotent=self._entry_of(self.server).is_idempotent(self.tool))
        except UsageError:
            return ToolOptions()

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """Checks names, and types as far as they are simple; the server checks the rest. Its schema may hold patterns and
        references that take for ever."""
        return check_arguments(self.name, self._shape, args)

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        return None

    def effects(self, args: dict[str, Any]) -> Effects:
        return UNKNOWN_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        source = source_of(self._entry(), self._now())
        return Plan(digest=action_digest(self.name, args, source.digest), source=source)

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        entry = self._entry()
        await self._servers.ready(entry)
        if self.plan(args).digest != plan.digest:
            raise TargetChanged(f"the declaration of {self.name} by its server was changed meanwhile; it did not run")
        return await self._called(entry, args, again=entry.is_idempotent(self.tool))

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)

    def _entry(self) -> McpServer:
        try:
            return self._entry_of(self.server)
        except UsageError as error:
            raise ToolError(f"{self.name} cannot run: {error}") from None

    def _now(self) -> DeclaredTool:
        return self._servers.current(self._entry(), self.tool) or self._declared

    async def _called(self, entry: McpServer, args: dict[str, Any], *, again: bool) -> str:
        questions = Elicitations(self.server, self.tool, current_call.get(None), may_ask=again)
        try:
            result = await self._servers.call(entry, self.tool, args, questions.asked)
        except AskedAmongOthers:
            if again:  # calls of this server are made one at a time from now on
                return await self._called(entry, args, again=again)
            raise CutOff(f"the MCP server {self.server} asked something while several calls of it ran") from None
        except ToolError:
            if questions.pause is not None:
                raise questions.pause from None
            raise
        if questions.pause is not None:
            raise questions.pause
        if questions.refused is not None:
            raise CutOff(self._unasked(questions.refused, again=again))
        text = text_of(result, self._servers.redacted)
        if result.isError:
            raise ToolError(text or f"{self.name} failed")
        return text

    def _unasked(self, question: str, *, again: bool) -> str:
        why = (
            "this kind of question cannot be asked"
            if again
            else f"it was not asked, because {self.name} is not declared `idempotent` in the MCP file, and so is not called again"
        )
        return f"the MCP server {self.server} asked {one_line(self._servers.redacted(question), 500)!r}: {why}; the server was told `cancel`"


def _outline(parameters: dict[str, Any]) -> dict[str, Any]:
    """What of a schema is checked here."""
    properties = {name: _simple(form) for name, form in parameters["properties"].items()}
    required = parameters.get("required")
    outline: dict[str, Any] = {"type": "object", "properties": properties}
    if isinstance(required, list):
        outline["required"] = [name for name in required if isinstance(name, str)]
    if parameters.get("additionalProperties") is False and "patternProperties" not in parameters:
        outline["additionalProperties"] = False
    return outline


def _simple(form: Any) -> dict[str, Any]:
    kind = form.get("type") if isinstance(form, dict) else None
    kinds = [kind] if isinstance(kind, str) else kind
    if isinstance(kinds, list) and kinds and all(isinstance(each, str) and each in _TYPES for each in kinds):
        return {"type": kind}
    return {}

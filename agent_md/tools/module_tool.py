"""Common code of all custom tools, in the process or in a sandbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agent_md.agents.effects import Effects
from agent_md.errors import ToolError
from agent_md.executions.requests import CallEffect, Preview, ToolSource
from agent_md.sdk import OPTIONS_ATTRIBUTE
from agent_md.tools.arguments import action_digest
from agent_md.tools.base import Plan, Settled, SettledState, TargetChanged, ToolOptions
from agent_md.tools.declared_files import DeclaredFiles, check_declared
from agent_md.tools.injected_arguments import check_callable, with_injected
from agent_md.tools.langchain_schema import parameters_of, validate_with
from agent_md.tools.last_good_modules import LastGoodModules, read_source
from agent_md.tools.module_hints import awaited_requests, never_made
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.results import one_line
from agent_md.tools.tool_modules import ModuleUnusable, Source, ToolModule

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = [
    "ModuleTool",
    "ToolDescription",
    "described",
    "mistakes_in",
    "place_of",
    "prepared_tool",
    "tool_of",
    "tools_in",
]


@dataclass(frozen=True, slots=True)
class ToolDescription:
    """What is known of a tool without running it."""

    name: str
    description: str
    parameters: dict[str, Any]
    options: ToolOptions


class ModuleTool:
    """One tool of a module; all of `agent_md.tools.base.Tool` but `validate`, `subjects` and `run`.

    A plan's digest covers the source of the module, and of what it imports from the folder, as it is on disk then, and the
    files that the tool declares to be covered. What
    runs is the tool of exactly that source: one that was edited since it was loaded is loaded again first, one edited
    since the plan does not run.
    """

    subjects_are_paths = False

    def __init__(
        self,
        module: ToolModule,
        description: ToolDescription,
        kept: LastGoodModules | None = None,
        files: Sandbox | None = None,
    ) -> None:
        """`files` are those of the agent. Raises ValueError for declared files that cannot be meant."""
        self._module = module
        self._kept = kept
        self.name = description.name
        self.description = description.description
        self.parameters = description.parameters
        self.options = description.options
        self.module_path = module.path
        check_declared(self.name, self.options, self.parameters)
        self._files = DeclaredFiles(self.options, self.parameters, files)

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def effects(self, args: dict[str, Any]) -> Effects:
        return self._files.effects(args)

    def plan(self, args: dict[str, Any]) -> Plan:
        return self._planned(args, self._source())

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)

    def _approved_source(self, args: dict[str, Any], plan: Plan) -> Source:
        """The source that was planned. Raises TargetChanged if it is another one by now."""
        source = self._source()
        if self._planned(args, source).digest != plan.digest:
            raise TargetChanged(
                f"the source of {self.name} ({self._module.path}), or a file that an approval of it covers, was changed "
                "meanwhile; it did not run"
            )
        return source

    def _planned(self, args: dict[str, Any], source: Source) -> Plan:
        covered = self._files.covered(args)
        facts = [text for file in covered for text in (file.path, file.state)]
        return Plan(
            digest=action_digest(self.name, args, source.digest, *facts),
            preview=Preview(resolved=", ".join(file.path for file in covered)) if covered else None,
            source=ToolSource(self._module.name, source.digest),
            covered=covered,
        )

    def _source(self) -> Source:
        try:
            return read_source(self._module, self._kept)
        except ModuleUnusable as error:
            raise ToolError(f"{self.name} cannot run: {error}") from None


def described(tool: BaseTool) -> ToolDescription:
    """What a LangChain tool says of itself. Raises ValueError for one that no call could use."""
    check_callable(tool)
    return ToolDescription(tool.name, tool.description, parameters_of(tool), _options(tool))


def tools_in(module: ModuleType) -> list[BaseTool]:
    """The tools that a loaded module has, in order."""
    from langchain_core.tools import BaseTool  # slow to import, and many commands need no tools

    found = [value for value in vars(module).values() if isinstance(value, BaseTool)]
    return list({id(tool): tool for tool in found}.values())


def tool_of(module: ToolModule, source: Source, name: str) -> BaseTool:
    """The tool of this name in this source of a module. Raises ToolError."""
    try:
        tools = tools_in(module.load(source))
    except ModuleUnusable as error:
        raise ToolError(f"{name} cannot run: {error}") from None
    tool = next((tool for tool in tools if tool.name == name), None)
    if tool is None:
        raise ToolError(f"{name} cannot run: {module.path} has no tool of this name any more")
    return tool


def prepared_tool(tool: BaseTool, args: dict[str, Any]) -> BaseTool:
    """The tool for a call that runs in this context. Raises ToolError if it does not take these arguments."""
    try:
        check_callable(tool)
        validate_with(tool, args)
    except ValueError as error:
        raise ToolError(f"{tool.name} cannot run: {one_line(str(error), 500)}") from error
    return with_injected(tool)


def mistakes_in(module: ToolModule, source: Source, loaded: ModuleType, found: Sequence[BaseTool]) -> list[str]:
    """What is wrong with a module as a whole, one line each."""
    wrong = [f"{module.path}: {text}" for text in never_made(loaded, found)]
    wrong += [
        f"{module.path}, line {line}: {request}() gives the answer itself; write it without await"
        for line, request in awaited_requests(source.files[module.name].data)
    ]
    if found or wrong:
        return wrong
    return [f"{module.path}: there is no tool in it; decorate a function with langchain_core's @tool"]


def place_of(module: ToolModule, tool: BaseTool) -> str:
    """Where a tool is written, with the line if that is known."""
    function = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
    code = getattr(function, "__code__", None)
    if code is None or code.co_filename != str(module.path):
        return str(module.path)
    return f"{module.path}, line {code.co_firstlineno}"


def _options(tool: BaseTool) -> ToolOptions:
    for holder in (getattr(tool, "func", None), getattr(tool, "coroutine", None), tool):
        options = getattr(holder, OPTIONS_ATTRIBUTE, None)
        if isinstance(options, ToolOptions):
            return replace(options, return_direct=bool(tool.return_direct))
    return ToolOptions(return_direct=bool(tool.return_direct))

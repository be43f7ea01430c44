"""Custom tools: LangChain tools of the workspace's tools folder, made to be planned and run like built-in ones."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agent_md.errors import AgentFileInvalid, ToolError
from agent_md.executions.requests import CallEffect, ToolSource
from agent_md.sdk import OPTIONS_ATTRIBUTE
from agent_md.tools.arguments import action_digest
from agent_md.tools.base import Plan, Settled, SettledState, TargetChanged, Tool, ToolOptions
from agent_md.tools.injected_arguments import check_callable, with_injected
from agent_md.tools.langchain_call import on_thread_of, result_of, run_langchain_tool
from agent_md.tools.langchain_schema import parameters_of, validate_with
from agent_md.tools.last_good_modules import KeptTools, read_source
from agent_md.tools.module_hints import awaited_requests, instead_of, never_made
from agent_md.tools.results import one_line
from agent_md.tools.threads import ToolThreads
from agent_md.tools.tool_modules import ModuleUnusable, Source, ToolModule

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["CustomTool", "load_custom_tools"]

Surroundings = Callable[[], AbstractContextManager[None]]
"""Makes the context manager that a tool runs in."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def load_custom_tools(
    tools_dir: Path,
    modules: Sequence[str],
    *,
    reserved: Collection[str],
    surroundings: Surroundings = nullcontext,
    workspace: Path | None = None,
    threads: ToolThreads | None = None,
    kept: KeptTools | None = None,
) -> list[Tool]:
    """The tools of these modules, in order. `reserved` are names that they may not have.

    A module is imported once in a process as long as its source is the same. Each call runs on `threads` inside a fresh
    `surroundings()`, and begins with `workspace` as the current folder (None = leaves it). With `kept` a module that is
    broken now is used as it was when it could be loaded last. Raises AgentFileInvalid, one
    line a mistake, with file and line: no such module, errors while it is imported, no tool in it, a name that is taken
    or that no provider takes.
    """
    threads = threads or ToolThreads()
    tools: list[Tool] = []
    mistakes: list[str] = []
    taken = dict.fromkeys(reserved, "a built-in tool")
    for name in dict.fromkeys(modules):
        module = ToolModule(tools_dir, name)
        try:
            found, wrong = _opened(module, kept)
        except ModuleUnusable as error:
            mistakes.append(_better(name, modules, module) or str(error))
            continue
        mistakes += wrong
        for tool in found:
            try:
                _check_name(tool.name, taken)
                tools.append(CustomTool(module, tool, threads, surroundings, workspace, kept))
            except ValueError as error:
                mistakes.append(f"{_place(module, tool)}: {one_line(str(error), 500)}")
            else:
                taken[tool.name] = f"module {name}"
    if mistakes:
        raise AgentFileInvalid("\n".join(mistakes))
    return tools


def _opened(module: ToolModule, kept: KeptTools | None) -> tuple[list[BaseTool], list[str]]:
    """The tools of a module and what is wrong with it. Raises ModuleUnusable."""
    source = read_source(module, kept)
    try:
        loaded = module.load(source)
        found = _tools_in(loaded)
        wrong = _wrong_in(module, source, loaded, found)
        if kept is None:
            return found, wrong
        if not wrong:
            kept.accept(module, source)
        elif kept.refuse(module, source, "\n".join(wrong)):
            return _opened(module, kept)
    except ModuleUnusable as error:
        if kept is None or not kept.refuse(module, source, str(error)):
            raise
        return _opened(module, kept)
    return found, wrong


def _wrong_in(module: ToolModule, source: Source, loaded: ModuleType, found: Sequence[BaseTool]) -> list[str]:
    wrong = [f"{module.path}: {text}" for text in never_made(loaded, found)]
    wrong += [
        f"{module.path}, line {line}: {request}() gives the answer itself; write it without await"
        for line, request in awaited_requests(source.files[module.name].data)
    ]
    if found or wrong:
        return wrong
    return [f"{module.path}: there is no tool in it; decorate a function with langchain_core's @tool"]


def _better(name: str, modules: Sequence[str], module: ToolModule) -> str | None:
    """What to write instead of a name that is no module."""
    return None if module.path.exists() else instead_of(name, modules, module.folder)


class CustomTool:
    """One LangChain tool of a module.

    A plan's digest covers the source of the module, and of what it imports from the folder, as it is on disk then. What
    runs is the tool of exactly that source: one that was edited since it was loaded is loaded again first, one edited
    since the plan does not run.
    """

    subjects_are_paths = False

    def __init__(
        self,
        module: ToolModule,
        tool: BaseTool,
        threads: ToolThreads,
        surroundings: Surroundings,
        workspace: Path | None = None,
        kept: KeptTools | None = None,
    ) -> None:
        self._module = module
        self._kept = kept
        self._tool = tool
        self._threads = threads
        self._surroundings = surroundings
        self._workspace = workspace
        check_callable(tool)
        self.name: str = tool.name
        self.description: str = tool.description
        self.parameters: dict[str, Any] = parameters_of(tool)
        self.options = _options(tool)

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return validate_with(self._tool, args).values

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        return None if validate_with(self._tool, args).exact else ()

    def plan(self, args: dict[str, Any]) -> Plan:
        return self._planned(args, self._source())

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        prepared = await on_thread_of(
            self.name, self._threads, f"arguments of {self.name}", lambda: self._prepared(args, plan)
        )
        tool: BaseTool = result_of(self.name, prepared)
        self._enter_workspace()
        with self._surroundings():
            return await run_langchain_tool(tool, args, self._threads, str(self._module.path))

    def _prepared(self, args: dict[str, Any], plan: Plan) -> BaseTool:
        """The tool of exactly the source that was planned, which takes these arguments. Runs code of the module."""
        source = self._source()
        if self._planned(args, source).digest != plan.digest:
            raise TargetChanged(
                f"the source of {self.name} ({self._module.path}) was changed meanwhile; it did not run"
            )
        tool = self._tool_of(source)
        try:
            check_callable(tool)
            validate_with(tool, args)
        except ValueError as error:
            raise ToolError(f"{self.name} cannot run: {one_line(str(error), 500)}") from error
        return with_injected(tool)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)

    def _enter_workspace(self) -> None:
        """An earlier tool may have left it."""
        if self._workspace is None:
            return
        try:
            os.chdir(self._workspace)
        except OSError as error:
            raise ToolError(
                f"{self.name} cannot run: the workspace {self._workspace} cannot be entered: {error.strerror}"
            ) from error

    def _planned(self, args: dict[str, Any], source: Source) -> Plan:
        return Plan(
            digest=action_digest(self.name, args, source.digest),
            source=ToolSource(self._module.name, source.digest),
        )

    def _source(self) -> Source:
        try:
            return read_source(self._module, self._kept)
        except ModuleUnusable as error:
            raise ToolError(f"{self.name} cannot run: {error}") from None

    def _tool_of(self, source: Source) -> BaseTool:
        try:
            tools = _tools_in(self._module.load(source))
        except ModuleUnusable as error:
            raise ToolError(f"{self.name} cannot run: {error}") from None
        tool = next((tool for tool in tools if tool.name == self.name), None)
        if tool is None:
            raise ToolError(f"{self.name} cannot run: {self._module.path} has no tool of this name any more")
        return tool


def _tools_in(module: ModuleType) -> list[BaseTool]:
    from langchain_core.tools import BaseTool  # slow to import, and many commands need no tools

    found = [value for value in vars(module).values() if isinstance(value, BaseTool)]
    return list({id(tool): tool for tool in found}.values())


def _check_name(name: str, taken: dict[str, str]) -> None:
    if name in taken:
        raise ValueError(f"the tool name {name!r} is taken by {taken[name]}; give the tool another name")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"the tool name {name!r} has signs that models do not take; use letters, digits, - and _, at most 64"
        )


def _place(module: ToolModule, tool: BaseTool) -> str:
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

"""Custom tools: adapts LangChain tools of the tools folder to the interface of tools."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_md.errors import AgentFileInvalid, ToolError
from agent_md.tools.base import Plan, Tool
from agent_md.tools.langchain_call import on_thread_of, result_of, run_langchain_tool
from agent_md.tools.langchain_schema import validate_with
from agent_md.tools.last_good_modules import LastGoodModules, read_source
from agent_md.tools.module_hints import asks_for_sandbox, instead_of
from agent_md.tools.module_tool import ModuleTool, described, mistakes_in, place_of, prepared_tool, tool_of, tools_in
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.results import one_line
from agent_md.tools.sandboxed_tool import ToolSandbox
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
    kept: LastGoodModules | None = None,
    sandbox: ToolSandbox | None = None,
    files: Sandbox | None = None,
) -> list[Tool]:
    """The tools of these modules, in order. `reserved` are names that they may not have.

    A module is imported once in a process as long as its source is the same. Each call runs on `threads` inside a fresh
    `surroundings()`, and begins with `workspace` as the current folder (None = leaves it). With `kept` a module that is
    broken now is used as it was when it could be loaded last. Modules that are to run in a sandbox are imported there
    only. `files` are those of the agent, which tools declare to read and write. Raises AgentFileInvalid, one line a mistake, with file and line: no such module, errors while it is imported,
    no tool in it, a name that is taken or that no provider takes, a sandbox that cannot be had.
    """
    loading = _Loading(threads or ToolThreads(), surroundings, workspace, kept, sandbox, files)
    tools: list[Tool] = []
    mistakes: list[str] = []
    taken = dict.fromkeys(reserved, "a built-in tool")
    for name in dict.fromkeys(modules):
        module = ToolModule(tools_dir, name)
        try:
            found, wrong = loading.opened(module)
        except ModuleUnusable as error:
            mistakes.append(_better(name, modules, module) or str(error))
            continue
        mistakes += wrong
        for place, tool in found:
            try:
                _check_name(tool.name, taken)
            except ValueError as error:
                mistakes.append(f"{place}: {one_line(str(error), 500)}")
            else:
                tools.append(tool)
                taken[tool.name] = f"module {name}"
    if mistakes:
        raise AgentFileInvalid("\n".join(mistakes))
    return tools


_Found = tuple[list[tuple[str, Tool]], list[str]]
"""Tools, each with the place where it is written, and lines that tell what is wrong."""


class _Loading:
    """Opens modules for one agent."""

    def __init__(
        self,
        threads: ToolThreads,
        surroundings: Surroundings,
        workspace: Path | None,
        kept: LastGoodModules | None,
        sandbox: ToolSandbox | None,
        files: Sandbox | None,
    ) -> None:
        self._threads = threads
        self._surroundings = surroundings
        self._workspace = workspace
        self._kept = kept
        self._sandbox = sandbox
        self._files = files

    def opened(self, module: ToolModule) -> _Found:
        """The tools of a module and what is wrong with it. Raises ModuleUnusable."""
        source = read_source(module, self._kept)
        try:
            found, wrong = self._opened(module, source)
            if self._kept is None:
                return found, wrong
            if not wrong:
                self._kept.accept(module, source)
            elif self._kept.refuse(module, source, "\n".join(wrong)):
                return self.opened(module)
        except ModuleUnusable as error:
            if self._kept is None or not self._kept.refuse(module, source, str(error)):
                raise
            return self.opened(module)
        return found, wrong

    def _opened(self, module: ToolModule, source: Source) -> _Found:
        if self._sandbox is not None and (self._sandbox.always or asks_for_sandbox(source)):
            return self._sandbox.opened(module, source, self._threads, self._kept, self._files)
        loaded = module.load(source)
        found = tools_in(loaded)
        wrong = mistakes_in(module, source, loaded, found)
        tools: list[tuple[str, Tool]] = []
        for tool in found:
            place = place_of(module, tool)
            try:
                surroundings, workspace = self._surroundings, self._workspace
                made = CustomTool(module, tool, self._threads, surroundings, workspace, self._kept, self._files)
            except ValueError as error:
                wrong.append(f"{place}: {one_line(str(error), 500)}")
                continue
            if made.options.sandbox and self._sandbox is not None:
                wrong.append(f"{place}: sandbox=True is found only where it is written in a call of tool_options")
            tools.append((place, made))
        return tools, wrong


def _better(name: str, modules: Sequence[str], module: ToolModule) -> str | None:
    """What to write instead of a name that is no module."""
    return None if module.path.exists() else instead_of(name, modules, module.folder)


class CustomTool(ModuleTool):
    """One LangChain tool of a module, which runs in this process."""

    def __init__(
        self,
        module: ToolModule,
        tool: BaseTool,
        threads: ToolThreads,
        surroundings: Surroundings,
        workspace: Path | None = None,
        kept: LastGoodModules | None = None,
        files: Sandbox | None = None,
    ) -> None:
        super().__init__(module, described(tool), kept, files)
        self._tool = tool
        self._threads = threads
        self._surroundings = surroundings
        self._workspace = workspace

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return validate_with(self._tool, args).values

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        return None if validate_with(self._tool, args).exact else ()

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
        tool = tool_of(self._module, self._approved_source(args, plan), self.name)
        return prepared_tool(tool, args)

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


def _check_name(name: str, taken: dict[str, str]) -> None:
    if name in taken:
        raise ValueError(f"the tool name {name!r} is taken by {taken[name]}; give the tool another name")
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"the tool name {name!r} has signs that models do not take; use letters, digits, - and _, at most 64"
        )

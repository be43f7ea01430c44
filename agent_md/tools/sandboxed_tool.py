"""Custom tools whose code is imported and run only in a sandboxed process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.json_values import is_too_deep
from agent_md.isolation.bubblewrap import isolation_problem
from agent_md.isolation.process import IsolatedProcess, Isolation
from agent_md.python_command import python_command
from agent_md.sdk import Pause, StepUnknown, current_call
from agent_md.tools.base import CutOff, Plan, Tool, ToolOptions
from agent_md.tools.langchain_schema import Arguments
from agent_md.tools.last_good_modules import LastGoodModules
from agent_md.tools.module_tool import ModuleTool, ToolDescription
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.remembered import Remembered
from agent_md.tools.results import one_line
from agent_md.tools.sandboxed_calls import RunnersCall, context_json, read_message, serve_call
from agent_md.tools.sandboxed_protocol import line_of, source_json
from agent_md.tools.threads import ToolThreads
from agent_md.tools.tool_modules import ModuleUnusable, Source, ToolModule

__all__ = ["SandboxedTool", "ToolSandbox"]

_PROGRAM = "agent_md.tools.sandboxed_child"
_CHECK_S = 60.0
"""How long importing a module, or checking arguments, may take."""


class ToolSandbox:
    """The sandbox of one agent's tools. `always`: for all its modules, else for those that ask for it."""

    def __init__(
        self,
        isolation: Callable[[bool], Isolation],
        remembered: Remembered,
        *,
        always: bool,
        surroundings: str | None = None,
    ) -> None:
        """`isolation` gives what a process is given, for a call or, False, for what only looks; it may raise ToolError.
        `surroundings` names, as `module:function`, what tools that use LangGraph run in."""
        self.always = always
        self._isolation = isolation
        self._remembered = remembered
        self._surroundings = surroundings

    def opened(
        self,
        module: ToolModule,
        source: Source,
        threads: ToolThreads,
        kept: LastGoodModules | None,
        files: Sandbox | None = None,
    ) -> tuple[list[tuple[str, Tool]], list[str]]:
        """The tools of a module, each with its place, and what is wrong with it. Raises ModuleUnusable, also where no
        process can be isolated."""
        if (problem := isolation_problem()) is not None:
            raise ModuleUnusable(f"{module.path}: {problem}")
        said = self._said(module, source, {"do": "describe"})
        if "unusable" in said:
            raise ModuleUnusable(str(said["unusable"]))
        tools: list[tuple[str, Tool]] = []
        wrong = [str(line) for line in said.get("wrong", ())]
        for found in said.get("tools", ()):
            place = str(found.get("place"))
            try:
                tools.append((place, SandboxedTool(module, _description(found), self, threads, kept, files)))
            except (TypeError, ValueError, KeyError) as error:
                wrong.append(f"{place}: its description cannot be used: {one_line(str(error), 300)}")
        return tools, wrong

    def checked(self, module: ToolModule, source: Source, tool: str, args: dict[str, Any]) -> Arguments:
        """The arguments as the tool will get them. Raises InvalidArguments, ToolError."""
        request = {"do": "check", "tool": tool, "args": args}
        said = self._said(module, source, request)
        if "invalid" in said:
            raise InvalidArguments(str(said["invalid"]))
        values = said.get("values")
        if "error" in said or not isinstance(values, dict) or is_too_deep(values):
            raise ToolError(str(said.get("error") or f"the arguments of {tool} cannot be checked"))
        exact = said.get("exact") is True
        if exact:  # checked again, they stay the same
            self._remembered.keep(_key(module, source, {**request, "args": values}), said)
        return Arguments(values, exact)

    def process(self) -> IsolatedProcess:
        """One for a call, not started. Raises ToolError."""
        return IsolatedProcess(self._isolation(True))

    def call(self, process: IsolatedProcess, request: dict[str, Any], call: RunnersCall) -> str:
        """The result of a call in a process that this starts and ends; as `serve_call`."""
        request = {**request, "do": "call", "context": context_json(call), "surroundings": self._surroundings}
        try:
            self._begin(process, request, request["tool"])
            return serve_call(process, call, request["tool"])
        except Pause:
            with suppress(ToolError):  # logged, and told when it has run again with the answer
                process.close()
            raise
        except (CutOff, StepUnknown) as error:
            is_waited_for = not (process.ended and isinstance(error, CutOff))
            try:
                process.close()
            except ToolError as found:  # what is unknown stays so
                if is_waited_for:
                    raise type(error)(f"{error}; {found}") from error
            if is_waited_for:
                raise
            return ""
        finally:
            process.close()

    def _begin(self, process: IsolatedProcess, request: dict[str, Any], what: str) -> None:
        """Starts a process; nothing of the module has run when this raises ToolError."""
        try:
            process.start(python_command("-s", "-m", _PROGRAM))
            process.write_line(line_of(request))
            read_message(process, what)
        except (CutOff, OSError, ValueError) as error:
            if process.ended and isinstance(error, CutOff):
                raise
            raise ToolError(f"{what} did not run: {one_line(str(error), 600)}") from error

    def _said(self, module: ToolModule, source: Source, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to what changes nothing. Raises ModuleUnusable when there is none."""
        key = _key(module, source, request)
        return self._remembered.get(key, lambda: self._look(module, source, request))

    def _look(self, module: ToolModule, source: Source, request: dict[str, Any]) -> dict[str, Any]:
        what = str(request.get("tool", module.name))
        try:
            process = IsolatedProcess(self._isolation(False))
            timer = threading.Timer(_CHECK_S, process.end)
            timer.daemon = True
            timer.start()
            try:
                self._begin(process, {**request, **module_json(module, source)}, what)
                return read_message(process, what)
            except CutOff as error:
                raise ToolError(f"it did not end within {_CHECK_S:g} s" if process.ended else str(error)) from error
            finally:
                timer.cancel()
                process.close()
        except ToolError as error:
            raise ModuleUnusable(f"{module.path}: {one_line(str(error), 600)}") from error


def _key(module: ToolModule, source: Source, request: dict[str, Any]) -> str:
    return json.dumps([str(module.path), source.digest, request], sort_keys=True)


def module_json(module: ToolModule, source: Source) -> dict[str, Any]:
    """A module as a sandboxed process is told of it."""
    return {"folder": str(module.folder), "module": module.name, "source": source_json(source)}


class SandboxedTool(ModuleTool):
    """One tool of a module; each call runs in a process of its own, which is ended with the call."""

    def __init__(
        self,
        module: ToolModule,
        description: ToolDescription,
        sandbox: ToolSandbox,
        threads: ToolThreads,
        kept: LastGoodModules | None = None,
        files: Sandbox | None = None,
    ) -> None:
        super().__init__(module, description, kept, files)
        self._sandbox = sandbox
        self._threads = threads

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return self._checked(args).values

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        return None if self._checked(args).exact else ()

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        call = cast(RunnersCall, current_call.get())
        prepared = await self._threads.on_thread(f"sandbox of {self.name}", lambda: self._prepared(args, plan))
        process, request = prepared.result()
        try:
            outcome = await self._threads.on_thread(
                f"tool {self.name}", lambda: self._sandbox.call(process, request, call)
            )
        finally:
            process.end()
        return str(outcome.result())

    def _prepared(self, args: dict[str, Any], plan: Plan) -> tuple[IsolatedProcess, dict[str, Any]]:
        source = self._approved_source(args, plan)
        request = {"tool": self.name, "args": args, **module_json(self._module, source)}
        return self._sandbox.process(), request

    def _checked(self, args: dict[str, Any]) -> Arguments:
        try:
            return self._sandbox.checked(self._module, self._source(), self.name, args)
        except ModuleUnusable as error:
            raise ToolError(f"{self.name} cannot run: {error}") from None


def _description(found: dict[str, Any]) -> ToolDescription:
    """What a module says of a tool. Raises ValueError, TypeError and KeyError for what cannot be."""
    import jsonschema

    name, text, parameters, options = (found[key] for key in ("name", "description", "parameters", "options"))
    if not (isinstance(name, str) and isinstance(text, str) and isinstance(parameters, dict)) or is_too_deep(
        parameters
    ):
        raise ValueError("it is not made of texts and a schema")
    try:
        jsonschema.Draft202012Validator.check_schema(parameters)
    except jsonschema.SchemaError as error:
        raise ValueError(f"its arguments are no JSON schema: {error.message}") from error
    timeout = options["timeout"]
    if timeout is not None and (type(timeout) not in (int, float) or not timeout > 0):
        raise ValueError("its timeout is no number above 0")
    asks, read_only, idempotent, return_direct = (
        options[key] is True for key in ("requires_approval", "read_only", "idempotent", "return_direct")
    )
    reads, writes, covers = (_names(options[key]) for key in ("reads", "writes", "covers"))
    made = ToolOptions(
        *(asks, read_only, idempotent, timeout),
        sandbox=True,
        reads=reads,
        writes=writes,
        covers=covers or (),
        return_direct=return_direct,
    )
    return ToolDescription(name, text, parameters, made)


def _names(value: Any) -> tuple[str, ...] | None:
    if value is not None and not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise ValueError("its files are no list of texts")
    return None if value is None else tuple(value)

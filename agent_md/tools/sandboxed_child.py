"""The program of a sandboxed process: imports one module, and describes, checks or calls a tool.

It runs under bubblewrap (`agent_md.isolation`), and reads and writes what `sandboxed_protocol` describes.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.calls import StepRecord
from agent_md.executions.requests import Answer
from agent_md.executions.states import RequestKind
from agent_md.isolation.forwarder import start_forwarder
from agent_md.sdk import Context, Pause, current_call
from agent_md.tools.langchain_call import run_langchain_tool
from agent_md.tools.langchain_schema import validate_with
from agent_md.tools.module_tool import described, mistakes_in, place_of, prepared_tool, tool_of, tools_in
from agent_md.tools.results import one_line
from agent_md.tools.sandboxed_protocol import (
    LINE_BYTES,
    answer_from,
    error_from,
    error_json,
    line_of,
    message_of,
    source_from,
    step_from,
)
from agent_md.tools.steps import ThisStrand, current_strand, in_step, run_step
from agent_md.tools.threads import ToolThreads
from agent_md.tools.tool_modules import ModuleUnusable, Source, ToolModule


def main() -> None:
    runner = _Runner()
    request = runner.read()
    runner.say({"ready": True})
    module = ToolModule(Path(request["folder"]), request["module"])
    try:
        outcome = _done(runner, request, module, source_from(request["source"]))
    except BaseException as error:  # whatever code of the module raises
        outcome = error_json(error)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # the module may have closed or replaced it
            stream.flush()
    runner.send_last(outcome)
    os._exit(0)  # threads that the module left


def _done(runner: _Runner, request: dict[str, Any], module: ToolModule, source: Source) -> dict[str, Any]:
    start_forwarder()
    match request["do"]:
        case "describe":
            return _description(module, source)
        case "check":
            try:
                checked = validate_with(tool_of(module, source, request["tool"]), request["args"])
            except InvalidArguments as error:
                return {"invalid": str(error)}
            return {"values": checked.values, "exact": checked.exact}
    return _call(runner, request, module, source)


def _description(module: ToolModule, source: Source) -> dict[str, Any]:
    try:
        loaded = module.load(source)
    except ModuleUnusable as error:
        return {"unusable": str(error)}
    found = tools_in(loaded)
    wrong = mistakes_in(module, source, loaded, found)
    tools = []
    for tool in found:
        place = place_of(module, tool)
        try:
            tools.append({"place": place, **asdict(described(tool))})
        except ValueError as error:
            wrong.append(f"{place}: {one_line(str(error), 500)}")
    return {"tools": tools, "wrong": wrong}


def _call(runner: _Runner, request: dict[str, Any], module: ToolModule, source: Source) -> dict[str, Any]:
    call = _SandboxedCall(runner, request["context"])
    current_call.set(call)
    tool = prepared_tool(tool_of(module, source, request["tool"]), request["args"])
    running = run_langchain_tool(tool, request["args"], ToolThreads(), str(module.path))
    try:
        with _surroundings(request["surroundings"]):
            return {"result": asyncio.run(running)}
    except Pause as pause:
        return {"paused": call.number_of(pause)}


def _surroundings(place: str | None) -> AbstractContextManager[None]:
    """What a tool that uses LangGraph runs in. It is imported only for those: that takes long."""
    if place is None or "langgraph.types" not in sys.modules:
        return nullcontext()
    module, _, name = place.partition(":")
    make: Callable[[], AbstractContextManager[None]] = getattr(importlib.import_module(module), name)
    return make()


class _Runner:
    """The runner at the other end. Its pipes are moved away from where the code of tools reads and prints."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in = os.fdopen(os.dup(0), "rb")
        self._out = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)

    def read(self) -> dict[str, Any]:
        line = self._in.readline()
        if not line:
            os._exit(1)
        return message_of(line)

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """The reply to a message. Raises the error that the runner replies with."""
        line = line_of(message)
        with self._lock:
            self._write(line)
            reply = self.read()
        if "error" in reply:
            raise error_from(reply)
        return reply

    def say(self, message: dict[str, Any]) -> None:
        """Sends a message that has no reply."""
        with self._lock:
            self._write(line_of(message))

    def send_last(self, outcome: dict[str, Any]) -> None:
        """Says how it ended."""
        try:
            line = line_of(outcome)
        except ValueError:
            line = line_of(
                {"error": f"the tool gave more than {LINE_BYTES} bytes, which is too long for a result", "kind": "tool"}
            )
        with self._lock:
            self._write(line)

    def _write(self, line: bytes) -> None:
        self._out.write(line + b"\n")
        self._out.flush()


class _SandboxedCall:
    """`agent_md.sdk.CallContext` in the sandbox: what it gives comes from the runner."""

    def __init__(self, runner: _Runner, context: dict[str, Any]) -> None:
        self._runner = runner
        self._context = context
        self._lock = threading.Lock()
        self._pauses: dict[int, Pause] = {}
        self._strands: list[ThisStrand] = []

    @property
    def info(self) -> Context:
        return Context(**{**self._context, "workspace": Path(self._context["workspace"])}, resolver=self._resolve)

    def ask(self, kind: RequestKind, message: str, **fields: Any) -> Answer:
        strand, ended = self._strand()
        reply = self._runner.ask(
            {
                "do": "ask",
                "kind": kind,
                "message": message,
                "fields": fields,
                "strand": strand,
                "ended": ended,
                "inside": in_step(),
            }
        )
        self._pause_if_told(reply)
        return answer_from(reply["answer"])

    def earlier_result(self, result_id: str) -> NoReturn:
        raise ToolError("earlier results are not given to tools")

    def step(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run_step(self, function, args, kwargs)

    def next_step(self, name: str, *, inside: bool) -> tuple[int, StepRecord | None]:
        reply = self._runner.ask({"do": "next_step", "name": name, "inside": inside})
        return reply["number"], step_from(reply["record"])

    def begin_step(self, number: int, name: str) -> None:
        self._pause_if_told(self._runner.ask({"do": "begin_step", "number": number, "name": name}))

    def end_step(self, number: int, result: Any, error: dict[str, Any] | None) -> None:
        self._runner.ask({"do": "end_step", "number": number, "value": result, "raised": error})

    def number_of(self, pause: Pause) -> int | None:
        """By which the runner knows it; None for one that the tool made itself."""
        return next((number for number, known in self._pauses.items() if known is pause), None)

    def _pause_if_told(self, reply: dict[str, Any]) -> None:
        if (number := reply.get("pause")) is not None:
            pause = Pause()
            with self._lock:
                self._pauses[number] = pause
            raise pause

    def _resolve(self, path: str) -> Path:
        return Path(self._runner.ask({"do": "resolve", "path": os.fspath(path)})["path"])

    def _strand(self) -> tuple[int, list[int]]:
        """The number of the task or thread that runs, and those that have ended."""
        strand = current_strand()
        with self._lock:
            if strand not in self._strands:
                self._strands.append(strand)
            ended = [number for number, known in enumerate(self._strands) if known.has_ended()]
            return self._strands.index(strand), ended


if __name__ == "__main__":
    main()

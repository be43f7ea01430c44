"""The tool node: one call, by its journal. Everything that may pause, die or be repeated is decided from the store."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import interrupt

from agent_md.errors import AgentmdError, ToolError
from agent_md.executions.answers import denial_text
from agent_md.executions.model import (
    Call,
    CallOutcome,
    CallState,
    Decision,
    NewRequest,
    Outcome,
    Position,
    Request,
    RequestSource,
)
from agent_md.graph.bench import Bench
from agent_md.graph.call_context import RunningCall
from agent_md.graph.gate import confirmation
from agent_md.graph.messages import to_stored, tool_message
from agent_md.graph.state import CallTask
from agent_md.sdk import Pause, StepUnknown, current_call
from agent_md.tools.base import Plan, Settled, SettledState, TargetChanged, Tool

__all__ = ["MAY_HAVE_RUN", "PAUSE_SWALLOWED", "ToolNode", "settled_closing"]

MAY_HAVE_RUN = "Unknown: the call may have run. It was started and its end was not seen; it is not run again"
PAUSE_SWALLOWED = (
    "the tool swallowed its own request, so nobody was asked: do not catch BaseException, "
    "or gather with return_exceptions, around a request"
)

_REPLANS = 3


@dataclass(frozen=True, slots=True)
class _End:
    """How a call closes."""

    state: CallState
    outcome: CallOutcome
    text: str


@dataclass(frozen=True, slots=True)
class _Ask:
    """What a call asks before it goes on."""

    requests: tuple[NewRequest, ...]


class ToolNode:
    """Runs one call when it may, waits for its answers when it must, and closes it once.

    It raises nothing but LangGraph's interrupt and errors of the store: any other exception would cancel its siblings.
    """

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def __call__(self, state: CallTask) -> dict[str, list[BaseMessage]]:
        position = Position(state["turn"], state["index"])
        while True:
            self._wait(position)
            call = self._call(position)
            if call.state.closed:
                return self._closed(call)
            result = await self._advance(call, asks=state["decision"] == Decision.ASK)
            if isinstance(result, _End):
                return self._close(call, result)
            self._bench.journal.pause_call(position, result.requests)
            self._bench.sink.stored()

    def _call(self, position: Position) -> Call:
        call = self._bench.store.call(self._bench.execution_id, position)
        if call is None:
            raise AgentmdError(f"execution {self._bench.execution_id} has no call {position} in its journal")
        return call

    def _requests(self, position: Position) -> list[Request]:
        everything = self._bench.store.requests(self._bench.execution_id)
        return [request for request in everything if request.position == position]

    def _wait(self, position: Position) -> None:
        """Parks the task while a request of the call is open. What wakes it means nothing: the store has the answers."""
        while open_ids := [request.id for request in self._requests(position) if request.open]:
            interrupt({"requests": open_ids})

    def _closed(self, call: Call) -> dict[str, list[BaseMessage]]:
        outcome = call.outcome or CallOutcome.UNKNOWN
        message = tool_message(
            self._bench.execution_id, call.position, call.call_id, call.tool, outcome, call.result or ""
        )
        return {"messages": [message]}

    def _close(self, call: Call, end: _End) -> dict[str, list[BaseMessage]]:
        message = tool_message(self._bench.execution_id, call.position, call.call_id, call.tool, end.outcome, end.text)
        self._bench.journal.finish_call(call.position, end.state, end.outcome, end.text, to_stored(message))
        self._bench.sink.stored()
        return {"messages": [message]}

    async def _advance(self, call: Call, *, asks: bool) -> _End | _Ask:
        if call.decision is Decision.REFUSE:
            return _End(CallState.FINISHED, CallOutcome.REFUSED, call.reason or "")
        tool = self._bench.tools.get(call.tool)
        if tool is None:
            return self._gone(call)
        if call.state is CallState.STARTED:
            settled = _settle(tool, call)
            if isinstance(settled, _End):
                return settled
            if settled is SettledState.CHANGED:
                return self._ask_again(call, tool, call.args, "its target was changed by someone else meanwhile")
        gate = [request for request in self._requests(call.position) if request.source is RequestSource.GATE]
        if not gate:
            if asks or call.decision is Decision.ASK:
                raise AgentmdError(f"call {call.position} of execution {self._bench.execution_id} has lost its request")
            return await self._run_unasked(call, tool)
        return await self._run_approved(call, tool, gate)

    def _gone(self, call: Call) -> _End:
        if call.state is CallState.STARTED:
            return _End(CallState.UNKNOWN, CallOutcome.UNKNOWN, MAY_HAVE_RUN)
        return _End(CallState.FINISHED, CallOutcome.FAILED, f"Error: the tool {call.tool} is gone")

    async def _run_unasked(self, call: Call, tool: Tool) -> _End | _Ask:
        for _ in range(_REPLANS):
            try:
                args = tool.validate(call.args)
                return await self._perform(call, tool, call.args, args, tool.plan(args))
            except TargetChanged as error:
                changed = error
            except ToolError as error:
                return _failed(error)
        return _failed(changed)

    async def _run_approved(self, call: Call, tool: Tool, gate: list[Request]) -> _End | _Ask:
        if denied := [r.answer for r in gate if r.answer is not None and r.answer.outcome is not Outcome.APPROVED]:
            return _End(CallState.FINISHED, CallOutcome.DENIED, denial_text(denied[0]))
        request = gate[-1]
        assert request.answer is not None
        edited = (request.answer.value or {}).get("args")
        given = request.tool_args if edited is None else edited
        assert given is not None
        try:
            args = tool.validate(given)
            plan = tool.plan(args)
            if plan.digest != (request.answer.digest or request.digest):
                return self._ask_again(call, tool, given, "changed since it was approved")
            return await self._perform(call, tool, given, args, plan, edited=edited is not None)
        except TargetChanged:
            return self._ask_again(call, tool, given, "changed since it was approved")
        except ToolError as error:
            return _failed(error)

    def _ask_again(self, call: Call, tool: Tool, given: dict[str, Any], why: str) -> _End | _Ask:
        occurrence = sum(request.source is RequestSource.GATE for request in self._requests(call.position))
        try:
            plan = tool.plan(tool.validate(given))
        except ToolError as error:
            return _failed(error)
        bench = self._bench
        return _Ask(
            (
                confirmation(
                    *(bench.spec, bench.execution_id, call.position, tool, given, plan),
                    occurrence=max(occurrence, 1),
                    why=why,
                ),
            )
        )

    async def _perform(
        self, call: Call, tool: Tool, given: dict[str, Any], args: dict[str, Any], plan: Plan, *, edited: bool = False
    ) -> _End | _Ask:
        """One pass of the tool. `started` is stored before its effect; TargetChanged and ToolError mean no success."""
        running = RunningCall(self._bench, call)
        self._bench.journal.start_call(call.position, given, plan.effect)
        token = current_call.set(running)
        try:
            async with asyncio.timeout(tool.options.timeout):
                text = await tool.run(args, plan)
        except Pause:
            return _failed(ToolError(running.fault)) if running.fault else _Ask(tuple(running.asked))
        except TimeoutError:
            return _timed_out(tool)
        except StepUnknown as error:
            return _failed(ToolError(running.fault)) if running.fault else _unknown(f"{MAY_HAVE_RUN} ({error})")
        except TargetChanged:
            raise
        except Exception as error:
            return _failed(ToolError(_broken(running) or error))
        finally:
            current_call.reset(token)
        if broken := _broken(running):
            return _failed(ToolError(broken))
        note = "The user edited the arguments of this call before approving it. " if edited else ""
        return _End(CallState.FINISHED, CallOutcome.DONE, note + text)


def _broken(running: RunningCall) -> str | None:
    return running.fault or (PAUSE_SWALLOWED if running.asked else None)


def _failed(error: ToolError) -> _End:
    text = str(error)
    shown = text if text.startswith(("Error:", "Action denied by user")) else f"Error: {text}"
    denied = text.startswith("Action denied by user")
    return _End(CallState.FINISHED, CallOutcome.DENIED if denied else CallOutcome.FAILED, shown)


def _unknown(text: str) -> _End:
    return _End(CallState.UNKNOWN, CallOutcome.UNKNOWN, text)


def _timed_out(tool: Tool) -> _End:
    text = f"{tool.name} did not end within {tool.options.timeout:g} s"
    if tool.options.read_only or tool.options.idempotent:
        return _failed(ToolError(text))
    return _unknown(f"Unknown: {text}; it may have run")


def _settle(tool: Tool, call: Call) -> _End | SettledState:
    """What to make of a call that was started by a driver that is gone: its end, or NOT_DONE to run it (again)."""
    if call.effect is not None:
        settled = _look(tool, call)
        if settled.state is SettledState.DONE:
            return _End(CallState.FINISHED, CallOutcome.DONE, settled.result or "")
        return settled.state
    if tool.options.read_only or tool.options.idempotent:
        return SettledState.NOT_DONE
    return _unknown(MAY_HAVE_RUN)


def _look(tool: Tool, call: Call) -> Settled:
    assert call.effect is not None
    try:
        return tool.settle(tool.validate(call.args), call.effect)
    except ToolError:
        return Settled(SettledState.CHANGED)


def settled_closing(tool: Tool | None, call: Call) -> tuple[CallState, CallOutcome, str]:
    """How an open call is closed when its execution ends: what it did if that can be seen, never a guess."""
    if call.state is not CallState.STARTED:
        return CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed: the execution ended before this call"
    if tool is not None and call.effect is not None:
        settled = _look(tool, call)
        if settled.state is SettledState.DONE:
            return CallState.FINISHED, CallOutcome.DONE, settled.result or ""
        if settled.state is SettledState.NOT_DONE:
            return CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed: the execution ended during this call"
        text = "Not known to be executed: the target was changed by someone else meanwhile"
        return CallState.FINISHED, CallOutcome.FAILED, text
    return CallState.UNKNOWN, CallOutcome.UNKNOWN, MAY_HAVE_RUN

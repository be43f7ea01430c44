"""Settles calls that were cut off, because their driver died or their execution ended."""

from __future__ import annotations

from collections.abc import Mapping

from agent_md.errors import ToolError
from agent_md.executions.calls import Call, StepRecord
from agent_md.executions.states import CallOutcome, CallState
from agent_md.graph.call_outcomes import MAY_HAVE_RUN, CallEnd, tool_errors, unknown, with_steps
from agent_md.tools.base import SettledState, Tool

__all__ = ["closing", "settle"]


def settle(tool: Tool, call: Call) -> CallEnd | SettledState:
    """What to make of a call that was started by a driver that is gone: its end, or whether it may run (again)."""
    if call.effect is not None:
        return _look(tool, call)
    options = tool.options_for(call.args)
    if options.read_only or options.idempotent:
        return SettledState.NOT_DONE
    return unknown(MAY_HAVE_RUN)


def closing(tools: Mapping[str, Tool], call: Call, steps: Mapping[int, StepRecord]) -> CallEnd:
    """How an open call is closed when its execution ends. One that has done `steps` is unknown."""
    return with_steps(_closing(tools, call), steps)


def _closing(tools: Mapping[str, Tool], call: Call) -> CallEnd:
    if call.state is CallState.PAUSED:
        text = "Not finished: the execution ended while this call waited for an answer"
        return CallEnd(CallState.FINISHED, CallOutcome.FAILED, text)
    if call.state is not CallState.STARTED:
        return CallEnd(CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed: the execution ended before this call")
    tool = tools.get(call.tool)
    if tool is None or call.effect is None:
        return unknown(MAY_HAVE_RUN)
    settled = _look(tool, call)
    if isinstance(settled, CallEnd):
        return settled
    if settled is SettledState.NOT_DONE:
        return CallEnd(CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed: the execution ended during this call")
    text = "Error: not known to be executed: its target was changed by someone else meanwhile"
    return CallEnd(CallState.FINISHED, CallOutcome.FAILED, text)


def _look(tool: Tool, call: Call) -> CallEnd | SettledState:
    assert call.effect is not None
    try:
        with tool_errors(tool):
            settled = tool.settle(tool.validate(call.args), call.effect)
    except ToolError:
        return SettledState.CHANGED
    if settled.state is SettledState.DONE:
        return CallEnd(CallState.FINISHED, CallOutcome.DONE, settled.result or "")
    return settled.state

"""How calls end: what their journal keeps and what the model is told, told from what can be known and never guessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from agent_md.errors import ClaimLost, StoreError, ToolError
from agent_md.executions.model import Call, CallOutcome, CallState, StepRecord
from agent_md.sdk import RequestDenied, RequestExpired
from agent_md.tools.base import SettledState, Tool
from agent_md.tools.results import one_line

__all__ = ["EDITED", "MAY_HAVE_RUN", "End", "closing", "failed", "settle", "tool_errors", "unknown", "with_steps"]

EDITED = "The user edited the arguments of this call before approving it."
MAY_HAVE_RUN = "Unknown: the call may have run. It was started and its end was not seen; it is not run again"

_ERROR_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class End:
    """How a call closes; `text` is for the model. `said_by_tool`: the tool ran to this end, or raised it."""

    state: CallState
    outcome: CallOutcome
    text: str
    said_by_tool: bool = False

    def with_note(self, note: str) -> End:
        """The same end, with a sentence before its text."""
        return replace(self, text=f"{note} {self.text}")


def failed(error: ToolError) -> End:
    """The end of a call whose tool raised this; a request that was not granted and not caught is a denial."""
    if isinstance(error, RequestDenied | RequestExpired):
        return End(CallState.FINISHED, CallOutcome.DENIED, str(error))
    text = str(error)
    return End(CallState.FINISHED, CallOutcome.FAILED, text if text.startswith("Error:") else f"Error: {text}")


def unknown(text: str) -> End:
    return End(CallState.UNKNOWN, CallOutcome.UNKNOWN, text)


def with_steps(end: End, steps: Mapping[int, StepRecord]) -> End:
    """The end of a call that did not come to its own: its steps have happened, whatever else is said of it."""
    if end.said_by_tool or not steps:
        return end
    text = f"{end.text}. {_steps_told(steps)}"
    return replace(end, text=text) if end.outcome in (CallOutcome.UNKNOWN, CallOutcome.DENIED) else unknown(text)


def _steps_told(steps: Mapping[int, StepRecord]) -> str:
    told: dict[str, list[str]] = {}
    for _, step in sorted(steps.items()):
        became = "may have run" if step.state is not CallState.FINISHED else "raised" if step.error else "are done"
        told.setdefault(became, []).append(step.function)
    return "; ".join(f"these steps of it {became}: {', '.join(names)}" for became, names in told.items()).capitalize()


@contextmanager
def tool_errors(tool: Tool) -> Iterator[None]:
    """Makes a ToolError of whatever the tool's own code raises in the block, such as a validator of its arguments."""
    try:
        yield
    except (ToolError, ClaimLost, StoreError):
        raise
    except (Exception, SystemExit) as error:
        raise ToolError(f"{tool.name} failed: {_described(error)}") from error


def settle(tool: Tool, call: Call) -> End | SettledState:
    """What to make of a call that was started by a driver that is gone: its end, or whether it may run (again)."""
    if call.effect is not None:
        return _look(tool, call)
    if tool.options.read_only or tool.options.idempotent:
        return SettledState.NOT_DONE
    return unknown(MAY_HAVE_RUN)


def closing(tools: Mapping[str, Tool], call: Call, steps: Mapping[int, StepRecord]) -> End:
    """How an open call is closed when its execution ends. One that has done `steps` is unknown."""
    return with_steps(_closing(tools, call), steps)


def _closing(tools: Mapping[str, Tool], call: Call) -> End:
    if call.state is CallState.PAUSED:
        text = "Not finished: the execution ended while this call waited for an answer"
        return End(CallState.FINISHED, CallOutcome.FAILED, text)
    if call.state is not CallState.STARTED:
        return End(CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed: the execution ended before this call")
    tool = tools.get(call.tool)
    if tool is None or call.effect is None:
        return unknown(MAY_HAVE_RUN)
    settled = _look(tool, call)
    if isinstance(settled, End):
        return settled
    if settled is SettledState.NOT_DONE:
        return End(CallState.FINISHED, CallOutcome.NOT_RUN, "Not executed: the execution ended during this call")
    text = "Error: not known to be executed: its target was changed by someone else meanwhile"
    return End(CallState.FINISHED, CallOutcome.FAILED, text)


def _look(tool: Tool, call: Call) -> End | SettledState:
    assert call.effect is not None
    try:
        with tool_errors(tool):
            settled = tool.settle(tool.validate(call.args), call.effect)
    except ToolError:
        return SettledState.CHANGED
    if settled.state is SettledState.DONE:
        return End(CallState.FINISHED, CallOutcome.DONE, settled.result or "")
    return settled.state


def _described(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # an exception that cannot say what it is
        message = ""
    return one_line(f"{type(error).__name__}: {message}" if message else type(error).__name__, _ERROR_LIMIT)

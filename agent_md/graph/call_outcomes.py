"""The outcomes of calls, and the texts about them for the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from agent_md.errors import ClaimLost, StoreError, ToolError
from agent_md.executions.calls import StepRecord
from agent_md.executions.execution import Execution
from agent_md.executions.states import CallOutcome, CallState, Status
from agent_md.sdk import RequestDenied, RequestExpired
from agent_md.tools.base import Tool
from agent_md.tools.results import one_line

__all__ = ["EDITED", "MAY_HAVE_RUN", "CallEnd", "failed", "of_child", "tool_errors", "unknown", "with_steps"]

EDITED = "The user edited the arguments of this call before approving it."

MAY_HAVE_RUN = "Unknown: the call may have run. It was started and its end was not seen; it is not run again"

_ERROR_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call closes; `text` is for the model. `said_by_tool`: the tool ran to this end, or raised it."""

    state: CallState
    outcome: CallOutcome
    text: str
    said_by_tool: bool = False

    def with_note(self, note: str) -> CallEnd:
        """The same end, with a sentence before its text."""
        return replace(self, text=f"{note} {self.text}")


def failed(error: ToolError) -> CallEnd:
    """The end of a call whose tool raised this; a request that was not granted and not caught is a denial."""
    if isinstance(error, RequestDenied | RequestExpired):
        return CallEnd(CallState.FINISHED, CallOutcome.DENIED, str(error))
    text = str(error)
    return CallEnd(CallState.FINISHED, CallOutcome.FAILED, text if text.startswith("Error:") else f"Error: {text}")


def of_child(child: Execution) -> CallEnd:
    """The end of the call that has started an execution, by how that ended."""
    who = f"{child.agent} (execution {child.id})"
    match child.status:
        case Status.SUCCESS:
            cut = "" if child.cut is None else f"\n[Its answer was cut before its end: {child.cut}]"
            return CallEnd(CallState.FINISHED, CallOutcome.DONE, f"{child.output or ''}{cut}", said_by_tool=True)
        case Status.TIMEOUT:
            how = "ran out of time"
        case Status.ABORTED:
            how = "was cancelled" if child.cancelled_by is not None else "was stopped"
        case _:
            how = "failed"
    return replace(failed(ToolError(f"{who} {how}: {child.error}")), said_by_tool=True)


def unknown(text: str) -> CallEnd:
    return CallEnd(CallState.UNKNOWN, CallOutcome.UNKNOWN, text)


def with_steps(end: CallEnd, steps: Mapping[int, StepRecord]) -> CallEnd:
    """The end of a call that was interrupted: the text names the steps that have happened."""
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


def _described(error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # an exception that cannot say what it is
        message = ""
    return one_line(f"{type(error).__name__}: {message}" if message else type(error).__name__, _ERROR_LIMIT)

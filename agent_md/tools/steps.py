"""Runs a step of a tool, and stores its result or its exception as JSON."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agent_md.errors import ToolError
from agent_md.executions.calls import StepRecord
from agent_md.executions.states import CallState
from agent_md.sdk import StepUnknown

__all__ = ["StepFailed", "StepLedger", "Strand", "ThisStrand", "current_strand", "in_step", "run_step"]

_in_step: contextvars.ContextVar[bool] = contextvars.ContextVar("agentmd_in_step", default=False)


class StepFailed(ToolError):
    """Stands for a kept exception of a step whose class cannot be made again; the text is the same."""


class StepLedger(Protocol):
    """Where the steps of one call are kept, by their number."""

    def next_step(self, name: str, *, inside: bool) -> tuple[int, StepRecord | None]:
        """The number of the next step, and what is kept of it; `inside`: it comes inside another step. Raises ToolError
        for one inside another, and for another function than the one that is kept."""

    def begin_step(self, number: int, name: str) -> None:
        """Records the start of a step. Raises Pause if the call may not continue."""

    def end_step(self, number: int, result: Any, error: dict[str, Any] | None) -> None:
        """Keeps how it ended."""


class Strand(Protocol):
    """What runs one piece of a tool's code after the other. Equal strands are the same one."""

    def has_ended(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ThisStrand:
    """A task or a thread of this process."""

    runner: asyncio.Task[Any] | threading.Thread

    def has_ended(self) -> bool:
        return not self.runner.is_alive() if isinstance(self.runner, threading.Thread) else self.runner.done()


def current_strand() -> ThisStrand:
    """The task that runs, or the thread if there is none."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop in this thread
        task = None
    return ThisStrand(task or threading.current_thread())


def in_step() -> bool:
    """Whether a step runs in this context."""
    return _in_step.get()


def run_step(ledger: StepLedger, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the step, run now or before; an awaitable if the function is a coroutine function."""
    name = _name_of(function)
    number, record = ledger.next_step(name, inside=_in_step.get())
    if inspect.iscoroutinefunction(function):
        return _async_step(ledger, number, name, record, function, args, kwargs)
    if record is not None:
        return _kept(record)
    with _running(ledger, number, name):
        result = function(*args, **kwargs)
    return _ended(ledger, number, result)


async def _async_step(
    ledger: StepLedger,
    number: int,
    name: str,
    record: StepRecord | None,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    if record is not None:
        return _kept(record)
    with _running(ledger, number, name):
        result = await function(*args, **kwargs)
    return _ended(ledger, number, result)


@contextmanager
def _running(ledger: StepLedger, number: int, name: str) -> Iterator[None]:
    ledger.begin_step(number, name)
    token = _in_step.set(True)
    try:
        yield
    except Exception as error:
        _failed(ledger, number, error)
        raise
    finally:
        _in_step.reset(token)


def _ended(ledger: StepLedger, number: int, result: Any) -> Any:
    try:
        kept = json.loads(json.dumps(result, allow_nan=False))
    except (TypeError, ValueError) as error:
        refused = TypeError(f"the result of a step must be JSON: {error}")
        _failed(ledger, number, refused)
        raise refused from None
    ledger.end_step(number, kept, None)
    return kept


def _failed(ledger: StepLedger, number: int, error: Exception) -> None:
    kind = type(error)
    ledger.end_step(
        *(number, None),
        {"module": kind.__module__, "name": kind.__qualname__, "args": _json_args(error), "text": str(error)},
    )


def _name_of(function: Callable[..., Any]) -> str:
    """The function as it is known over all passes, also after its module was edited or moved."""
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    file = getattr(module, "__file__", None)
    place = f"{Path(file).stem}." if file else ""
    return place + getattr(function, "__qualname__", type(function).__qualname__)


def _json_args(error: Exception) -> list[Any] | None:
    try:
        args: list[Any] = json.loads(json.dumps(list(error.args), allow_nan=False))
    except (TypeError, ValueError):
        return None
    return args


def _kept(record: StepRecord) -> Any:
    if record.state is not CallState.FINISHED:
        raise StepUnknown(f"the step {record.function} was started before and did not finish: it may have run")
    if record.error is not None:
        raise _kept_error(record.error)
    return record.result


def _kept_error(error: dict[str, Any]) -> Exception:
    module = sys.modules.get(error["module"])  # never imported: what is stored must not load code
    kind = getattr(module, error["name"], None)
    if isinstance(kind, type) and issubclass(kind, Exception) and error["args"] is not None:
        try:
            return kind(*error["args"])
        except Exception:
            return StepFailed(error["text"])
    return StepFailed(error["text"])

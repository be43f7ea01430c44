"""Runs a LangChain tool so that nothing it does can hurt its driver: not how it ends, not how long it takes."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_md.errors import ClaimLost, StoreError, ToolError
from agent_md.executions.texts import bounded
from agent_md.sdk import Pause
from agent_md.tools.results import result_text, storable

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["run_langchain_tool"]

_PASSED_ON = (Pause, ToolError, ClaimLost, StoreError)
"""What is not the tool's own failure: a pause, an error with a text for the model, and the end of this driver."""
_GRACE = 1.0
"""Seconds that a cancelled async tool has to tidy up before it is left alone."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a tool ended, as a value: some exceptions cannot pass through a future or a task unharmed."""

    value: Any = None
    error: BaseException | None = None


async def run_langchain_tool(tool: BaseTool, args: dict[str, Any]) -> str:
    """The tool's result as text. An async tool runs on the loop, a sync one on a thread of its own.

    A sync tool that is cancelled is left alone: the await ends at once, and its thread does not hold up the exit. An
    async one is left alone if it has not ended a second after its cancellation.
    Raises ToolError for whatever the tool raises; Pause, ToolError, ClaimLost and StoreError pass unchanged.
    """
    from langchain_core.runnables.config import ensure_config

    config = ensure_config()
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task else 0
    if _is_async(tool):
        outcome = await _in_task(_without_exits(tool).arun(dict(args), config=config))
    else:
        outcome = await _in_thread(f"tool {tool.name}", lambda: tool.run(dict(args), config=config))
    if task and task.cancelling() > cancelled_before:
        # Whatever the tool made of it: a cancellation of the driver is not the tool's to swallow.
        raise asyncio.CancelledError
    if outcome.error is None:
        return _text(outcome.value)
    error = _ungrouped(outcome.error)
    if isinstance(error, _PASSED_ON):
        raise error
    raise ToolError(_failure(tool.name, outcome.error)) from outcome.error


def _ungrouped(error: BaseException) -> BaseException:
    """The pause in a group of nothing but pauses, which a TaskGroup makes of questions asked at once."""
    while isinstance(error, BaseExceptionGroup) and error.split(Pause)[1] is None:
        error = error.exceptions[0]
    return error


def _is_async(tool: BaseTool) -> bool:
    from langchain_core.tools import BaseTool

    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _without_exits(tool: BaseTool) -> BaseTool:
    """A copy of an async tool out of which no SystemExit, KeyboardInterrupt or GeneratorExit comes.

    LangChain runs the tool in a task of its own. The first two asyncio throws out of a task into the loop, which ends
    the whole program; the third closes every coroutine that awaits the task, instead of being raised in it.
    """
    inner = tool._arun

    @functools.wraps(inner)
    async def guarded(*args: Any, **kwargs: Any) -> Any:
        try:
            return await inner(*args, **kwargs)
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
            if not _loop_runs():
                raise  # not the tool's doing: the coroutine is thrown away unfinished
            raise ToolError(_failure(tool.name, error)) from error

    copy = tool.model_copy()
    # Past pydantic, which takes only declared fields; LangChain looks the method up on the instance.
    object.__setattr__(copy, "_arun", guarded)
    return copy


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(running: Awaitable[Any]) -> _Outcome:
    try:
        return _Outcome(await running)
    except BaseException as error:
        return _Outcome(error=error)


async def _in_task(running: Awaitable[Any]) -> _Outcome:
    task = asyncio.ensure_future(_awaited(running))
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE)
        raise
    return task.result()


async def _in_thread(name: str, function: Callable[[], Any]) -> _Outcome:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[_Outcome] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome = _Outcome(context.run(function))
        except BaseException as error:
            outcome = _Outcome(error=error)
        try:
            loop.call_soon_threadsafe(_deliver, ended, outcome)
        except RuntimeError:
            return  # the loop has ended: nobody waits for this any more

    threading.Thread(target=work, name=name, daemon=True).start()
    return await ended


def _deliver(ended: asyncio.Future[_Outcome], outcome: _Outcome) -> None:
    if not ended.done():
        ended.set_result(outcome)


def _text(value: Any) -> str:
    from langchain_core.messages import ToolMessage

    return result_text(value.content if isinstance(value, ToolMessage) else value)


def _failure(tool: str, error: BaseException) -> str:
    try:
        message = str(error)
    except Exception:  # an exception that cannot say what it is
        message = ""
    kind = type(error).__name__
    return storable(bounded(f"{tool} failed: {kind}: {message}" if message else f"{tool} failed: {kind}"))

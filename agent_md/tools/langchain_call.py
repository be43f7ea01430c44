"""Runs a LangChain tool so that its failures and delays cannot affect the driver."""

from __future__ import annotations

import asyncio
import functools
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from agent_md.errors import ClaimLost, StoreError, ToolError
from agent_md.executions.error_text import bounded
from agent_md.sdk import Pause
from agent_md.tools.results import result_text, storable
from agent_md.tools.threads import Outcome, ToolThreads

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["on_thread_of", "result_of", "run_langchain_tool"]

T = TypeVar("T")

_AWAITED = re.compile(r"\bawait\b.*\b(?:request_(?:confirmation|input|choice|questions)|interrupt)\(")

_PASSED_ON = (Pause, ToolError, ClaimLost, StoreError)
"""What is not the tool's own failure: a pause, an error with a text for the model, and the end of this driver."""


async def run_langchain_tool(tool: BaseTool, args: dict[str, Any], threads: ToolThreads, module: str) -> str:
    """The tool's result as text. An async tool runs on the event loop of its module, a sync one on a thread of its own.

    A cancelled sync tool is abandoned: the await ends at once, and its thread does not delay the exit. An async one is
    abandoned if it has not ended a second after its cancellation. Raises ToolError for any exception of the tool;
    Pause, ToolError, ClaimLost and StoreError propagate."""
    from langchain_core.runnables.config import ensure_config

    config = ensure_config()
    name = f"tool {tool.name}"
    if _is_async(tool):
        guarded = _without_exits(tool)

        async def awaited() -> str:
            with _told(tool.name):
                return _text(await guarded.arun(dict(args), config=config))

        outcome = await threads.on_loop(module, name, awaited)
    else:
        outcome = await on_thread_of(tool.name, threads, name, lambda: _text(tool.run(dict(args), config=config)))
    return str(result_of(tool.name, outcome))


async def on_thread_of(tool: str, threads: ToolThreads, name: str, function: Callable[[], T]) -> Outcome:
    """The outcome of code of the tool on a thread of its own, where its errors become texts too."""

    def told() -> T:
        with _told(tool):
            return function()

    return await threads.on_thread(name, told)


@contextmanager
def _told(tool: str) -> Iterator[None]:
    """Makes a ToolError of what the tool raises in the block, so that its text is made where the tool runs: the methods
    of a result or an error are code of the tool's own, which may block or raise anything."""
    try:
        yield
    except asyncio.CancelledError:
        raise  # whose it is, is known only where the call is awaited
    except BaseException as error:
        if isinstance(error, GeneratorExit) and not _loop_runs():
            raise
        result_of(tool, Outcome(error=error))


def result_of(tool: str, outcome: Outcome) -> Any:
    """The value that code of the tool gave. Raises ToolError for whatever it raised; Pause, ToolError, ClaimLost and
    StoreError pass unchanged."""
    if outcome.error is None:
        return outcome.value
    error = _ungrouped(outcome.error)
    if isinstance(error, _PASSED_ON):
        raise error
    raise ToolError(_failure(tool, outcome.error) + _advice(outcome.error)) from outcome.error


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


def _text(value: Any) -> str:
    from langchain_core.messages import ToolMessage

    return result_text(value.content if isinstance(value, ToolMessage) else value)


def _failure(tool: str, error: BaseException) -> str:
    try:
        message = str(error)
    except BaseException:  # an exception that cannot say what it is
        message = ""
    kind = type(error).__name__
    return storable(bounded(f"{tool} failed: {kind}: {message}" if message else f"{tool} failed: {kind}"))


def _advice(error: BaseException) -> str:
    """What to write instead, for an answer that is awaited: the functions that ask are no coroutines."""
    frames = traceback.extract_tb(error.__traceback__)
    if not (isinstance(error, TypeError) and frames and _AWAITED.search(frames[-1].line or "")):
        return ""
    return ". The functions of agent_md.sdk that ask give the answer itself: write them without await"

"""The names of LangGraph's threads: an execution uses one thread at a time, and gets a new name when its thread is
abandoned."""

from __future__ import annotations

from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId

__all__ = ["owner_of", "thread_id"]


def thread_id(execution: Execution) -> str:
    """The thread of an execution. Its number alone would not do: a new store counts from 1 again."""
    renewed = f"#{execution.thread}" if execution.thread else ""
    return f"{execution.id}@{execution.created_at!r}{renewed}"


def owner_of(thread: str) -> ExecutionId | None:
    """The number of the execution whose thread it is, or was; None for a name that this program does not give."""
    number, at, _ = thread.partition("@")
    return ExecutionId(int(number)) if at and number.isascii() and number.isdigit() and len(number) < 19 else None

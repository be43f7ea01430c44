"""The state of a thread as plain data, without LangGraph."""

from __future__ import annotations

from dataclasses import dataclass

from agent_md.executions.ids import WaitId

__all__ = ["OpenPause", "TaskView", "ThreadView"]


@dataclass(frozen=True, slots=True)
class OpenPause:
    """A place where a task waits: LangGraph's id of it, and what it waits for."""

    interrupt_id: str
    waits: frozenset[WaitId]


@dataclass(frozen=True, slots=True)
class TaskView:
    """One task of the thread's current step. A task with neither `finished` nor pauses has not run yet."""

    finished: bool
    pauses: tuple[OpenPause, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A thread as the checkpointer has it. `answer`: the text of its last message if that is the model's, without tool
    calls; `cut`: why that one stopped before its end."""

    written: bool
    tasks: tuple[TaskView, ...] = ()
    answer: str | None = None
    cut: str | None = None

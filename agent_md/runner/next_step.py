"""Decides the next step of the loop from the state of the thread and the recorded answers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent_md.executions.ids import WaitId
from agent_md.graph.thread_view import ThreadView

__all__ = ["Broken", "Continue", "Finished", "Park", "Seed", "Step", "Wake", "next_step"]


@dataclass(frozen=True, slots=True)
class Seed:
    """Begin with the first messages."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The agent has answered with this text; `cut`: why it stopped before its end."""

    output: str
    cut: str | None = None


@dataclass(frozen=True, slots=True)
class Broken:
    """The thread ended without an answer."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Go on at these pauses; what they waited for is in the store."""

    interrupt_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Park:
    """Wait: nothing can go on until all of one of these sets is over."""

    waits: tuple[frozenset[WaitId], ...]


@dataclass(frozen=True, slots=True)
class Continue:
    """Run what has not run."""


Step = Seed | Finished | Broken | Wake | Park | Continue


def next_step(thread: ThreadView, over: Collection[WaitId]) -> Step:
    """The next step of an execution; the whole table of the loop is here. `over`: the requests that are answered, and the
    children that have ended.

    `tasks` decides, not the names of the next nodes: those are also empty when every task has finished but the next
    checkpoint was not saved.
    """
    if not thread.written:
        return Seed()
    if not thread.tasks:
        return Broken() if thread.answer is None else Finished(thread.answer, thread.cut)
    pauses = [pause for task in thread.tasks if not task.finished for pause in task.pauses]
    given = tuple(pause.interrupt_id for pause in pauses if all(wait in over for wait in pause.waits))
    if given:
        return Wake(given)
    if pauses and all(task.finished or task.pauses for task in thread.tasks):
        return Park(tuple(pause.waits for pause in pauses))
    return Continue()

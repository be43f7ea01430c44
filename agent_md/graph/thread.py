"""One execution's LangGraph thread: reads its state, starts it, resumes it, continues it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableConfig
from langgraph.constants import START
from langgraph.types import Command, StateSnapshot
from langsmith import tracing_context

from agent_md.errors import AgentmdError
from agent_md.executions.ids import RequestId
from agent_md.executions.thread_names import thread_id
from agent_md.graph.build import MODEL_NODE, build_graph
from agent_md.graph.messages import ai_id, from_stored, text_of, tool_id, turn_of
from agent_md.graph.run_context import RunContext
from agent_md.graph.thread_view import OpenPause, TaskView, ThreadView
from agent_md.models.finish_reasons import cut_reason
from agent_md.stores.checkpoints import Checkpoints

__all__ = ["Thread"]

log = logging.getLogger(__name__)

_NO_STEP_LIMIT = 1_000_000_000
"""LangGraph's own limit counts steps of one drive; ours count calls, tokens, money and time."""


class Thread:
    """The thread of one execution for one drive. A thread that cannot be read is dropped and made again: the store has
    all that happened."""

    def __init__(self, run_context: RunContext, checkpointer: Checkpoints) -> None:
        self._checkpointer = checkpointer
        self._of_file = checkpointer.made_anew
        self._run_context = run_context
        self._compared = False
        self._id = thread_id(run_context.execution)
        self._config: RunnableConfig = {
            "configurable": {"thread_id": self._id},
            "recursion_limit": _NO_STEP_LIMIT,
        }
        self._seed = from_stored(run_context.store.in_thread(run_context.execution_id))
        self._graph = build_graph(run_context, checkpointer)

    async def view(self) -> ThreadView:
        """The thread as it is now."""
        try:
            snapshot = await self._graph.aget_state(self._config)
        except Exception:
            return self._drop("cannot be read")
        if self._checkpointer.made_anew != self._of_file:
            return self._drop("were on a file that is gone")
        if self._has_lost_its_beginning(snapshot):
            return self._drop("have lost their beginning")
        if not self._compared and self._is_ahead_of_the_store(snapshot):
            return self._drop("know more than the store, which is an older copy")
        self._compared = True
        return self._seen(snapshot)

    def _seen(self, snapshot: StateSnapshot) -> ThreadView:
        answer = self._answer(_messages(snapshot))
        return ThreadView(
            written=snapshot.created_at is not None,
            tasks=_tasks(snapshot),
            answer=None if answer is None else text_of(answer),
            cut=None if answer is None else cut_reason(answer),
        )

    def _answer(self, messages: Sequence[BaseMessage]) -> BaseMessage | None:
        """The last message, as the store has it, if it is the model's, without calls."""
        if not messages or messages[-1].type != "ai":
            return None
        stored = self._run_context.store.model_step(self._run_context.execution_id, turn_of(messages) - 1)
        (last,) = [None] if stored is None else from_stored([stored])
        return None if getattr(last, "tool_calls", None) else last

    def _has_lost_its_beginning(self, snapshot: StateSnapshot) -> bool:
        messages = _messages(snapshot)
        if messages:
            first = self._seed[0].id if self._seed else ai_id(self._run_context.execution_id, 0)
            return messages[0].id != first
        beginnings = [{START}] if self._seed else [{START}, {MODEL_NODE}]
        return snapshot.created_at is not None and {task.name for task in snapshot.tasks} not in beginnings

    def _is_ahead_of_the_store(self, snapshot: StateSnapshot) -> bool:
        finished = [message for task in snapshot.tasks for message in (task.result or {}).get("messages", ())]
        messages = [*_messages(snapshot), *finished]
        store, execution_id = self._run_context.store, self._run_context.execution_id
        turn = turn_of(messages) - 1
        if turn >= 0 and store.model_step(execution_id, turn) is None:
            return True
        closed = {tool_id(execution_id, call.position) for call in store.calls(execution_id) if call.state.closed}
        closed |= {str(message.id) for message in self._seed}  # results of the conversation before this execution
        if any(message.type == "tool" and message.id not in closed for message in messages):
            return True
        known = store.waits(execution_id).keys()
        return any(not pause.waits <= known for task in _tasks(snapshot) for pause in task.pauses)

    def _drop(self, why: str) -> ThreadView:
        log.warning("the checkpoints of thread %s %s; they are made again from the store", self._id, why, exc_info=True)
        self.forget()
        return ThreadView(written=False)

    def forget(self) -> None:
        """Drops the checkpoints; the next step begins with the first messages, and takes the rest from the store."""
        self._checkpointer.delete_thread(self._id)
        self._of_file = self._checkpointer.made_anew

    async def start(self) -> None:
        """Runs from the first messages until nothing can go on."""
        await self._run({"messages": self._seed})

    async def wake(self, interrupt_ids: Sequence[str]) -> None:
        """Runs on at these pauses; what wakes them carries nothing, the answers are in the store."""
        await self._run(Command(resume={interrupt_id: {"wake": True} for interrupt_id in interrupt_ids}))

    async def go_on(self) -> None:
        """Runs what has not run."""
        await self._run(None)

    async def _run(self, given: Any) -> None:
        # Variables such as LANGSMITH_TRACING would send every prompt and result to another service.
        try:
            with tracing_context(enabled=False):
                async for _ in self._graph.astream(given, self._config, stream_mode="updates", durability="sync"):
                    pass
        except AgentmdError:
            raise
        except Exception:
            if self._checkpointer.made_anew == self._of_file:
                raise
            log.warning("thread %s was cut: its checkpoints are made anew", self._id, exc_info=True)


def _messages(snapshot: StateSnapshot) -> list[BaseMessage]:
    return snapshot.values.get("messages") or []


def _tasks(snapshot: StateSnapshot) -> tuple[TaskView, ...]:
    return tuple(
        TaskView(
            finished=task.result is not None,
            pauses=tuple(
                OpenPause(item.id, frozenset(RequestId(r) for r in item.value["requests"])) for item in task.interrupts
            ),
        )
        for task in snapshot.tasks
    )

"""The model node: one AI message, asked for once, stored with the decisions on its calls before anything of it happens."""

from __future__ import annotations

from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage

from agent_md.graph.bench import Bench
from agent_md.graph.gate import propose
from agent_md.graph.limits import check_before_model_call, count_calls
from agent_md.graph.messages import ai_id, from_stored, text_of, to_stored, turn_of
from agent_md.graph.shape import provider_shape
from agent_md.graph.state import ThreadState

__all__ = ["ModelNode"]


class ModelNode:
    """Asks the model, or gives back the message that is stored for this turn."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def __call__(self, state: ThreadState) -> dict[str, list[BaseMessage]]:
        bench, messages = self._bench, state["messages"]
        turn = turn_of(messages)
        stored = bench.store.model_step(bench.execution_id, turn)
        if stored is None:
            stored = await self._ask(turn, messages)
        return {"messages": from_stored([stored])}

    async def _ask(self, turn: int, messages: list[BaseMessage]) -> dict[str, Any]:
        bench = self._bench
        settings = bench.spec.settings
        check_before_model_call(settings, bench.store.execution(bench.execution_id).usage, messages)
        message = await bench.call_model(
            provider_shape(messages),
            lambda text: bench.sink.delta(bench.execution_id, turn, text),
            lambda: bench.sink.restart(bench.execution_id, turn),
        )
        stored = to_stored(_placed(message, ai_id(bench.execution_id, turn), turn))
        message = cast(AIMessage, from_stored([stored])[0])  # what is decided on is what is stored
        proposals = propose(
            bench.spec,
            bench.tools,
            bench.execution_id,
            turn,
            message.tool_calls,
            settings.max_tool_calls - count_calls(messages),
        )
        bench.journal.record_model_step(turn, stored, text_of(message), bench.usage_of(message), proposals)
        bench.sink.stored()
        return stored


def _placed(message: AIMessage, message_id: str, turn: int) -> AIMessage:
    """The message under our id, each of its calls with an id of its own (some models give none, or one twice)."""
    seen: set[str] = set()
    calls = []
    for index, call in enumerate(message.tool_calls):
        call_id = call["id"]
        if not call_id or call_id in seen:
            call_id = f"call_{turn}_{index}"
        seen.add(call_id)
        calls.append({**call, "id": call_id})
    return message.model_copy(update={"id": message_id, "tool_calls": calls})

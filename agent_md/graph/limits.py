"""The limits of one execution. They count what its messages and its usage say, so they hold over pauses and crashes."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from agent_md.agents.spec import RunSettings
from agent_md.errors import LimitReached
from agent_md.executions.model import Usage
from agent_md.graph.shape import provider_shape
from agent_md.tools.results import one_line

__all__ = ["LOOP_LENGTH", "check_before_model_call", "count_calls"]

LOOP_LENGTH = 3
"""How often in a row the same call may fail with the same error."""

_SHOWN = 300


def count_calls(messages: Sequence[BaseMessage]) -> int:
    """The tool calls that the model asked for since the last human message."""
    return len(_exchanges(messages))


def check_before_model_call(settings: RunSettings, usage: Usage, messages: Sequence[BaseMessage]) -> None:
    """Raises LimitReached, naming the limit, when the execution may not ask the model again."""
    exchanges = _exchanges(messages)
    if len(exchanges) > settings.max_tool_calls:
        raise LimitReached(f"max_tool_calls is {settings.max_tool_calls}, and the agent asked for {len(exchanges)}")
    if usage.total_tokens >= settings.max_execution_tokens:
        raise LimitReached(
            f"max_execution_tokens is {settings.max_execution_tokens}, and {usage.total_tokens} are used"
        )
    if settings.max_cost_usd is not None:
        if usage.cost_usd is None:
            raise LimitReached(f"max_cost_usd is ${settings.max_cost_usd:g}, and the cost so far is unknown")
        if usage.cost_usd >= settings.max_cost_usd:
            raise LimitReached(f"max_cost_usd is ${settings.max_cost_usd:g}, and ${usage.cost_usd:g} are spent")
    if settings.loop_detection and _loops(exchanges[-LOOP_LENGTH:]):
        call, result = exchanges[-1]
        raise LimitReached(
            f"loop_detection: {call['name']} failed {LOOP_LENGTH} times in a row in the same way: "
            f"{one_line(result.text, _SHOWN)}"
        )


def _exchanges(messages: Sequence[BaseMessage]) -> list[tuple[ToolCall, ToolMessage]]:
    start = max((i for i, message in enumerate(messages) if message.type == "human"), default=0)
    exchanges: list[tuple[ToolCall, ToolMessage]] = []
    calls: list[ToolCall] = []
    for message in provider_shape(messages[start:]):
        if isinstance(message, AIMessage):
            calls = list(message.tool_calls)
        elif isinstance(message, ToolMessage):
            exchanges.append((calls.pop(0), message))
    return exchanges


def _loops(tail: list[tuple[ToolCall, ToolMessage]]) -> bool:
    if len(tail) < LOOP_LENGTH or any(result.status != "error" for _, result in tail):
        return False
    (first, text) = tail[0]
    return all(
        (call["name"], call["args"], result.content) == (first["name"], first["args"], text.content)
        for call, result in tail
    )

"""The limits of one execution, computed from its messages and usage, so that they hold across pauses and crashes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import ToolCall

from agent_md.agents.spec import RunSettings
from agent_md.errors import LimitReached
from agent_md.executions.execution import Spent
from agent_md.graph.message_order import provider_order
from agent_md.models.finish_reasons import cut_reason
from agent_md.tools.results import one_line

__all__ = ["CUTS", "LOOP_LENGTH", "check_before_model_call", "check_spent", "not_run"]

LOOP_LENGTH = 3
"""How often in a row the same call may fail with the same error."""

CUTS = 3
"""How many answers in a row may be cut in the middle of their calls."""

_SHOWN = 300


def not_run(cut: str) -> str:
    """The text for the model about each call of an answer that was cut for this reason."""
    return (
        f"nothing was run: the answer with this call was cut before its end (finish reason {cut}). Call again with less "
        "in one answer"
    )


def check_spent(settings: RunSettings, spent: Spent, whose: str = "") -> None:
    """Raises LimitReached, naming the limit and whose it is, when no model may be asked again. The limit of the day is not
    among them: its money is held by the store."""
    if spent.calls > settings.max_tool_calls:
        asked = "the agent" if not whose else "it and those it called"
        raise LimitReached(f"max_tool_calls{whose} is {settings.max_tool_calls}, and {asked} asked for {spent.calls}")
    if spent.usage.total_tokens >= settings.max_execution_tokens:
        raise LimitReached(
            f"max_execution_tokens{whose} is {settings.max_execution_tokens}, and {spent.usage.total_tokens} are used"
        )
    _check_money(settings.max_cost_usd, spent.usage.cost_usd, whose)


def check_before_model_call(settings: RunSettings, messages: Sequence[BaseMessage]) -> None:
    """Raises LimitReached when what the model said and did so far leads nowhere."""
    exchanges = _exchanges(messages)
    if _cuts(messages) >= CUTS:
        raise LimitReached(
            f"{CUTS} answers of the model in a row were cut before the end of their calls (finish reason "
            f"{cut_reason(_answers(messages)[-1])}); raise settings.max_tokens, or ask for less at once"
        )
    if settings.loop_detection and _loops(exchanges[-LOOP_LENGTH:]):
        call, result = exchanges[-1]
        raise LimitReached(
            f"loop_detection: {call['name']} failed {LOOP_LENGTH} times in a row in the same way: "
            f"{one_line(result.text, _SHOWN)}"
        )


def _answers(messages: Sequence[BaseMessage]) -> list[AIMessage]:
    """The model's messages since the last human one."""
    start = max((i for i, message in enumerate(messages) if message.type == "human"), default=0)
    return [message for message in messages[start:] if isinstance(message, AIMessage)]


def _cuts(messages: Sequence[BaseMessage]) -> int:
    """How many of the last answers in a row were cut."""
    return sum(1 for _ in takewhile(cut_reason, reversed(_answers(messages))))


def _check_money(most: float | None, cost: float | None, whose: str) -> None:
    if most is None:
        return
    if cost is None:
        raise LimitReached(f"max_cost_usd{whose} is ${most:g}, and the cost so far is unknown")
    if cost >= most:
        raise LimitReached(f"max_cost_usd{whose} is ${most:g}, and ${cost:g} are spent")


def _exchanges(messages: Sequence[BaseMessage]) -> list[tuple[ToolCall, ToolMessage]]:
    start = max((i for i, message in enumerate(messages) if message.type == "human"), default=0)
    exchanges: list[tuple[ToolCall, ToolMessage]] = []
    calls: list[ToolCall] = []
    for message in provider_order(messages[start:]):
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

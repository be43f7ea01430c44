"""The model node: calls the model once per AI message, and stores it with the decisions on its calls."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.tool import ToolCall

from agent_md.errors import LimitReached, ModelFailed
from agent_md.executions.execution import Usage
from agent_md.executions.json_values import MAX_DEPTH, is_too_deep
from agent_md.executions.positions import place_of_turn
from agent_md.executions.spending import Verdict
from agent_md.executions.states import CallOutcome
from agent_md.graph.call_outcomes import EDITED
from agent_md.graph.gate import propose
from agent_md.graph.limits import check_before_model_call, not_run
from agent_md.graph.message_order import provider_order
from agent_md.graph.messages import ai_id, from_stored, placeholder, text_of, to_stored, turn_of
from agent_md.graph.redacting import DeltaRedaction, redacted_proposals, with_marks
from agent_md.graph.run_context import HandedOver, RunContext
from agent_md.graph.state import ThreadState
from agent_md.models.finish_reasons import cut_reason

__all__ = ["ModelNode"]

log = logging.getLogger(__name__)

_LOOK_AGAIN_S = 0.2
"""How often is looked whether money was freed; also the death of another process does that."""

_NAMELESS = "unknown"
"""Instead of no name, which no provider takes back."""


class ModelNode:
    """Asks the model, or gives back the message that is stored for this turn."""

    def __init__(self, run_context: RunContext) -> None:
        self._run_context = run_context
        self._before: list[BaseMessage] | None = None

    async def __call__(self, state: ThreadState) -> dict[str, list[BaseMessage]]:
        run_context = self._run_context
        turn = turn_of(state["messages"])
        stored = run_context.store.model_step(run_context.execution_id, turn)
        if stored is None:
            direct = self._direct_answer(turn)
            stored = await self._ask(turn) if direct is None else self._give(turn, direct)
        return {"messages": [placeholder(message) for message in from_stored([stored])]}

    def _direct_answer(self, turn: int) -> str | None:
        """The results of the last message's calls, if all of them are what their tools declare to be the answer, and ran.

        With one that failed, or was refused, or is of another tool, the model goes on.
        """
        run_context = self._run_context
        calls = run_context.store.calls(run_context.execution_id, turn=turn - 1) if turn > 0 else []
        tools = [run_context.tools.get(call.tool) for call in calls]
        if not all(tool is not None and tool.options.return_direct for tool in tools):
            return None
        if any(call.outcome is not CallOutcome.DONE for call in calls):
            return None
        texts = [(call.result or "").removeprefix(EDITED).strip() for call in calls]
        return "\n\n".join(filter(None, texts)) or None  # no provider takes back an empty message

    def _give(self, turn: int, text: str) -> dict[str, Any]:
        """Stores the message that answers instead of the model: a conversation ends with one."""
        message = AIMessage(
            text, id=ai_id(self._run_context.execution_id, turn), response_metadata={"return_direct": True}
        )
        stored = _stored(message)
        self._run_context.journal.record_model_step(turn, stored, text, Usage(), [])
        self._run_context.sink.stored()
        return stored

    async def _ask(self, turn: int) -> dict[str, Any]:
        run_context = self._run_context
        if run_context.leave():
            raise HandedOver
        messages = from_stored(run_context.store.said(run_context.execution_id))
        settings = run_context.spec.settings
        calls_left = run_context.limits.check()
        check_before_model_call(settings, messages)
        if self._before is None:
            self._before = from_stored(run_context.store.seed(run_context.execution_id))
        history = provider_order([*self._before, *messages])
        await self._reserve(history)
        run_context.journal.begin(place_of_turn(turn))
        deltas = DeltaRedaction(
            run_context.redactor, lambda text: run_context.sink.delta(run_context.execution_id, turn, text)
        )

        def restarted(attempt: int, attempts: int) -> None:
            deltas.restart()
            run_context.sink.restart(run_context.execution_id, turn, attempt, attempts)

        message = await run_context.call_model(history, deltas.add, restarted)
        deltas.end()
        message, unusable = _placed(message, ai_id(run_context.execution_id, turn), turn)
        stored = run_context.redactor.value(_stored(message))
        message = cast(AIMessage, from_stored([stored])[0])  # what is decided on is what is stored
        cut = cut_reason(message)
        if cut is not None:
            unusable = {call["id"] or "": not_run(cut) for call in message.tool_calls}
        unusable = {**unusable, **with_marks(run_context.redactor, message.tool_calls)}
        grants = run_context.store.grants.usable(run_context.execution_id)
        proposals = await run_context.aside(
            lambda: propose(
                *(
                    run_context.spec,
                    run_context.tools,
                    run_context.execution_id,
                    turn,
                    message.tool_calls,
                    calls_left,
                    unusable,
                    grants,
                )
            )
        )
        proposals = redacted_proposals(run_context.redactor, proposals)
        told = run_context.journal.record_model_step(
            turn, stored, text_of(message), run_context.usage_of(message), proposals, cut=cut
        )
        for text in told:
            log.warning("%s", text)
        run_context.sink.stored()
        return stored

    async def _reserve(self, history: list[BaseMessage]) -> None:
        """Holds the money of the call that comes; waits while calls of others hold what it needs. Raises LimitReached."""
        run_context = self._run_context
        while (
            budget := await run_context.aside(lambda: run_context.budget_of(history))
        ) is not None:  # the day may be another after a wait
            judged = run_context.journal.reserve(budget)
            if judged.verdict is Verdict.OVER:
                raise LimitReached(judged.reason)
            if judged.verdict is Verdict.FITS:
                return
            await asyncio.sleep(_LOOK_AGAIN_S)


def _stored(message: AIMessage) -> dict[str, Any]:
    try:
        return to_stored(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFailed(f"the model's answer cannot be stored as JSON: {error}") from error


def _placed(message: AIMessage, message_id: str, turn: int) -> tuple[AIMessage, dict[str, str]]:
    """The message under our id, each of its calls with an id of its own (some models give none, or one twice).

    Calls whose arguments are no JSON, or are nested too deeply, become calls without arguments, so that they are
    answered like any other; what is wrong with them comes by call id.
    """
    given: list[ToolCall] = list(message.tool_calls)
    broken = [ToolCall(name=call["name"] or _NAMELESS, args={}, id=call["id"]) for call in message.invalid_tool_calls]
    calls: list[ToolCall] = []
    unusable: dict[str, str] = {}
    taken = {""}
    reserved = {call["id"] for call in (*given, *broken)}
    for index, call in enumerate((*given, *broken)):
        call_id = call["id"] or ""
        if call_id in taken:
            call_id = f"call_{turn}_{index}"
            while call_id in reserved:
                call_id += "x"
        taken.add(call_id)
        name, args = call["name"] or _NAMELESS, call["args"]
        if index >= len(given):
            unusable[call_id] = f"the arguments of {name!r} are not JSON; nothing was run"
        elif is_too_deep(args):
            unusable[call_id] = f"the arguments of {name!r} are nested deeper than {MAX_DEPTH}; nothing was run"
            args = {}
        calls.append({**call, "name": name, "args": args, "id": call_id})
    placed = {"id": message_id, "tool_calls": calls, "invalid_tool_calls": []}
    return message.model_copy(update=placed), unusable

"""The tool node: runs one call and stores each of its steps, so that it can pause, be killed or be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import interrupt

from agent_md.errors import (
    AgentmdError,
    AnswerRetracted,
    CancelRequested,
    ClaimLost,
    GrantLapsed,
    OutOfResources,
    StoreError,
    ToolError,
    UnknownGrant,
)
from agent_md.executions.answers import denial_text
from agent_md.executions.calls import Call
from agent_md.executions.execution import NewChild
from agent_md.executions.grants import GrantId
from agent_md.executions.ids import RequestId, child_wait
from agent_md.executions.positions import Position
from agent_md.executions.requests import Answer, NewRequest, Request
from agent_md.executions.states import CallOutcome, CallState, Decision, Outcome, RequestSource
from agent_md.graph.call_context import RunningCall
from agent_md.graph.call_outcomes import (
    EDITED,
    MAY_HAVE_RUN,
    CallEnd,
    failed,
    of_child,
    tool_errors,
    unknown,
    with_steps,
)
from agent_md.graph.cut_off_calls import settle
from agent_md.graph.gate import confirmation, offer_of
from agent_md.graph.messages import placeholder, to_stored, tool_message
from agent_md.graph.redacting import redacted_request
from agent_md.graph.run_context import RunContext
from agent_md.graph.state import CallTask
from agent_md.graph.what_changed import Reason, because, changed
from agent_md.sdk import Pause, StepUnknown, current_call
from agent_md.tools.base import CutOff, Plan, SettledState, TargetChanged, Tool, ToolOptions, tool_digest
from agent_md.tools.builtin import RESERVED_NAMES
from agent_md.tools.long_results import for_model
from agent_md.tools.results import storable
from agent_md.tools.run_agent import ChildStarts, RunAgent
from agent_md.tools.run_command import RunCommand

__all__ = ["ToolNode"]

T = TypeVar("T")

_REPLANS = 3

_LONG_RESULTS = frozenset({RunAgent.name, RunCommand.name})
"""Tools of the product whose results can be too long for a model."""


@dataclass(frozen=True, slots=True)
class _Ask:
    """The question that a call asks before it continues."""

    requests: tuple[NewRequest, ...]
    child: NewChild | None = None


class ToolNode:
    """Runs one call when it may, waits for its answers when it must, and closes it once.

    It raises nothing but LangGraph's interrupt, errors of the store, OutOfResources and CancelRequested: any other exception
    would cancel its siblings.
    """

    def __init__(self, run_context: RunContext) -> None:
        self._run_context = run_context

    async def __call__(self, state: CallTask) -> dict[str, list[BaseMessage]]:
        position = Position(state["turn"], state["index"])
        while True:
            requests = self._decided(position)
            call = self._call(position)
            if call.state.closed:
                return _in_thread(self._message(call, call.outcome or CallOutcome.UNKNOWN, call.result or ""))
            with suppress(AnswerRetracted):  # since they were read; the question is open again
                closed = await self._go_on(call, requests, asks=state["decision"] == Decision.ASK)
                if closed is not None:
                    return closed

    async def _go_on(
        self, call: Call, requests: Sequence[Request], *, asks: bool
    ) -> dict[str, list[BaseMessage]] | None:
        """One pass of the call: its message when it is closed, None when it asks. Raises AnswerRetracted."""
        result = await self._advance(call, requests, asks=asks)
        if isinstance(result, CallEnd):
            steps = self._run_context.store.steps(self._run_context.execution_id, call.position)
            return self._close(call, with_steps(result, steps), requests)
        asked = [redacted_request(self._run_context.redactor, request) for request in result.requests]
        self._run_context.journal.pause_call(call.position, asked, child=result.child, answered=_ids(requests))
        self._run_context.sink.stored()
        return None

    def _call(self, position: Position) -> Call:
        call = self._run_context.store.call(self._run_context.execution_id, position)
        if call is None:
            raise AgentmdError(f"execution {self._run_context.execution_id} has no call {position} in its journal")
        return call

    def _decided(self, position: Position) -> list[Request]:
        """The requests of the call, but those whose answer was retracted; parks the task while one is open, or the child
        that it has started goes on. What wakes it means nothing: the store has the answers."""
        while True:
            everything = self._run_context.store.requests(self._run_context.execution_id)
            requests = [each for each in everything if each.position == position and each.retraction is None]
            waits: list[str] = [request.id for request in requests if request.open]
            child = self._run_context.store.child(self._run_context.execution_id, position)
            if child is not None and not child.status.final:
                waits.append(child_wait(child.id))
            if not waits:
                return requests
            interrupt({"requests": waits})

    def _message(self, call: Call, outcome: CallOutcome, text: str) -> ToolMessage:
        """The text for the model about a closed call; the whole text is in the store."""
        if call.tool not in RESERVED_NAMES or call.tool in _LONG_RESULTS:  # those bound their results themselves
            limit = self._run_context.spec.settings.max_tool_result_bytes
            text = for_model(text, f"{self._run_context.execution_id}-{call.position}", limit)
        return tool_message(self._run_context.execution_id, call, outcome, text)

    def _close(self, call: Call, end: CallEnd, requests: Sequence[Request]) -> dict[str, list[BaseMessage]]:
        text = self._run_context.redactor.text(storable(end.text))
        message = self._message(call, end.outcome, text)
        self._run_context.journal.finish_call(
            call.position, end.state, end.outcome, text, to_stored(message), answered=_ids(requests)
        )
        self._run_context.sink.stored()
        return _in_thread(message)

    async def _advance(self, call: Call, requests: Sequence[Request], *, asks: bool) -> CallEnd | _Ask:
        if call.decision is Decision.REFUSE:
            return CallEnd(CallState.FINISHED, CallOutcome.REFUSED, call.reason or "")
        gate = [request for request in requests if request.source is RequestSource.GATE]
        if denial := _denial(gate):
            return CallEnd(CallState.FINISHED, CallOutcome.DENIED, denial_text(denial))
        result = await self._advance_allowed(call, requests, gate, asks=asks)
        if isinstance(result, CallEnd) and any(_edited_args(request) is not None for request in gate):
            return result.with_note(EDITED)
        return result

    async def _advance_allowed(
        self, call: Call, requests: Sequence[Request], gate: list[Request], *, asks: bool
    ) -> CallEnd | _Ask:
        child = self._run_context.store.child(self._run_context.execution_id, call.position)
        if child is not None:
            return of_child(child)
        tool = self._run_context.tools.get(call.tool)
        if tool is None:
            return _gone(call)
        if call.state is CallState.STARTED:
            settled = await self._run_context.aside(lambda: settle(tool, call))
            if isinstance(settled, CallEnd):
                return settled
            if settled is SettledState.CHANGED:
                return await self._ask_anew(call, tool, call.args, gate, changed("by someone else while the call ran"))
        if gate:
            return await self._run_approved(call, tool, requests, gate)
        if asks or call.decision is Decision.ASK:
            raise AgentmdError(
                f"call {call.position} of execution {self._run_context.execution_id} has lost its request"
            )
        return await self._run_unasked(call, tool, requests)

    async def _run_unasked(self, call: Call, tool: Tool, requests: Sequence[Request]) -> CallEnd | _Ask:
        asked_by = {request.action_digest for request in requests} - {None}
        grant_id = None if call.state is CallState.PAUSED else call.grant_id  # what has begun goes on without it
        for _ in range(_REPLANS):
            try:
                args, plan = await self._planned(tool, call.args)
                if asked_by - {plan.digest}:  # the answers were given to another action than this one
                    return await self._ask_anew(call, tool, call.args, [], changed("since it asked"))
                if grant_id is not None:
                    self._check_grant(grant_id, tool, plan)
                return await self._perform(call, tool, args, plan, requests, grant_id)
            except GrantLapsed as lapsed:
                return await self._ask_anew(call, tool, call.args, [], because(str(lapsed)))
            except TargetChanged as error:
                last = error
            except ToolError as error:
                return failed(error)
        return failed(last)

    def _check_grant(self, grant_id: GrantId, tool: Tool, plan: Plan) -> None:
        """Raises GrantLapsed unless the tool is the one that the grant was given for."""
        try:
            given_for = self._run_context.store.grants.get(grant_id).tool_digest
        except UnknownGrant as error:
            raise GrantLapsed(str(error)) from None
        if given_for != tool_digest(tool, plan):
            raise GrantLapsed(f"{tool.name} was changed since grant {grant_id} was given")

    async def _run_approved(
        self, call: Call, tool: Tool, requests: Sequence[Request], gate: list[Request]
    ) -> CallEnd | _Ask:
        request = gate[-1]
        edited = _edited_args(request)
        given = request.tool_args if edited is None else edited
        assert given is not None
        assert request.answer is not None
        try:
            args, plan = await self._planned(tool, given)
            if plan.digest == (request.answer.digest or request.digest):
                return await self._perform(call, tool, args, plan, requests)
        except TargetChanged:
            pass
        except ToolError as error:
            return failed(error)
        return await self._ask_anew(
            call, tool, given, gate, changed("since this was approved", None if edited else request)
        )

    async def _ask_anew(
        self, call: Call, tool: Tool, given: dict[str, Any], gate: list[Request], why: Reason
    ) -> CallEnd | _Ask:
        """A new request for the current action; `why` says what has changed."""
        try:
            args, plan = await self._planned(tool, given)
            offer = await self._aside(tool, lambda: offer_of(tool, args, plan, tool.subjects(args), tool.effects(args)))
        except ToolError as error:
            return failed(error)
        request = confirmation(
            *(self._run_context.spec, self._run_context.execution_id, call.position, tool, args, plan),
            offer=offer,
            rule=gate[-1].rule if gate else None,
            occurrence=gate[-1].occurrence + 1 if gate else 1,
            why=why(plan),
        )
        return _Ask((request,))

    async def _perform(
        self,
        call: Call,
        tool: Tool,
        args: dict[str, Any],
        plan: Plan,
        requests: Sequence[Request],
        grant_id: GrantId | None = None,
    ) -> CallEnd | _Ask:
        """One pass of the tool; `started` is stored before it. When nothing was done it raises TargetChanged,
        AnswerRetracted, and GrantLapsed when the grant does not allow it any more."""
        async with self._run_context.side_by_side.running(alone=bool(plan.covered)):
            return await self._perform_now(call, tool, args, plan, requests, grant_id)

    async def _perform_now(
        self,
        call: Call,
        tool: Tool,
        args: dict[str, Any],
        plan: Plan,
        requests: Sequence[Request],
        grant_id: GrantId | None,
    ) -> CallEnd | _Ask:
        running, options = RunningCall(self._run_context, call, plan, requests), tool.options_for(args)
        self._run_context.journal.start_call(
            call.position, args, plan.effect, answered=_ids(requests), grant_id=grant_id
        )
        token = current_call.set(running)
        try:
            async with asyncio.timeout(options.timeout) as limit:
                text = await tool.run(args, plan)
        except ChildStarts as starts:
            return _Ask((), starts.child)
        except Pause as pause:
            if isinstance(pause.__cause__, CancelRequested):
                raise pause.__cause__ from None
            fault = running.fault(pause)
            return _said(failed(ToolError(fault))) if fault else _Ask(tuple(running.asked))
        except OutOfResources:
            self._run_context.journal.put_back(call.position, call.state)
            raise
        except (TargetChanged, ClaimLost, StoreError):
            raise
        except Exception as error:
            return _timed_out(tool, options) if limit.expired() else _raised(options, error, running.fault())
        finally:
            running.end()
            current_call.reset(token)
        fault = running.fault()
        return _said(failed(ToolError(fault)) if fault else CallEnd(CallState.FINISHED, CallOutcome.DONE, text))

    async def _planned(self, tool: Tool, given: dict[str, Any]) -> tuple[dict[str, Any], Plan]:
        def planned() -> tuple[dict[str, Any], Plan]:
            args = tool.validate(given)
            return args, tool.plan(args)

        return await self._aside(tool, planned)

    async def _aside(self, tool: Tool, function: Callable[[], T]) -> T:
        """The result of a function that may run code of the tool. Raises ToolError."""

        def guarded() -> T:
            with tool_errors(tool):
                return function()

        result: T = await self._run_context.aside(guarded)
        return result


def _ids(requests: Sequence[Request]) -> list[RequestId]:
    return [request.id for request in requests]


def _in_thread(message: ToolMessage) -> dict[str, list[BaseMessage]]:
    return {"messages": [placeholder(message)]}


def _denial(gate: list[Request]) -> Answer | None:
    """The answer that did not grant what the gate asked; it wins whatever else has changed since."""
    answers = [request.answer for request in gate if request.answer is not None]
    return next((answer for answer in answers if answer.outcome is not Outcome.APPROVED), None)


def _edited_args(request: Request) -> dict[str, Any] | None:
    args: dict[str, Any] | None = (request.answer.value or {}).get("args") if request.answer else None
    return args


def _gone(call: Call) -> CallEnd:
    if call.state is CallState.STARTED:
        return unknown(MAY_HAVE_RUN)
    return failed(ToolError(f"the tool {call.tool} is gone"))


def _said(end: CallEnd) -> CallEnd:
    return replace(end, said_by_tool=True)


def _raised(options: ToolOptions, error: Exception, fault: str | None) -> CallEnd:
    if fault:
        return _said(failed(ToolError(fault)))
    if isinstance(error, StepUnknown):
        return unknown(f"{MAY_HAVE_RUN} ({error})")
    if isinstance(error, CutOff):
        return _cut(options, str(error))
    return _said(failed(error if isinstance(error, ToolError) else ToolError(error)))


def _timed_out(tool: Tool, options: ToolOptions) -> CallEnd:
    return _cut(options, f"{tool.name} did not end within {options.timeout:g} s")


def _cut(options: ToolOptions, text: str) -> CallEnd:
    if options.read_only or options.idempotent:
        return _said(failed(ToolError(text)))
    return unknown(f"Unknown: {text}; it may have run")

"""The runner's interface to a running tool call: ask a question, run a step, resolve a path.

A request is known by its content, never by the order of calls: LangGraph matches several interrupts of one task by
order, and would give one question's answer to another.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agent_md.errors import CallClosed, CancelRequested, ToolError, UnknownExecution
from agent_md.executions.calls import Call, StepRecord
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.request_occurrences import first_id
from agent_md.executions.requests import Answer, NewRequest, Request
from agent_md.executions.states import RequestKind, RequestSource
from agent_md.graph.run_context import RunContext
from agent_md.sdk import Context, Pause
from agent_md.tools.base import Plan
from agent_md.tools.steps import Strand, current_strand, in_step, run_step

__all__ = ["PAUSE_SWALLOWED", "RunningCall"]

PAUSE_SWALLOWED = (
    "the tool swallowed its own request, so nobody was asked: do not catch BaseException, "
    "gather with return_exceptions, around a request"
)

_RESULT_ID = re.compile(r"(\d{1,18})-(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True, slots=True)
class _Raised:
    """A pause that left `ask`. `late`: an earlier one had been dropped by then, as the tool went on after it."""

    pause: Pause
    strand: Strand
    late: bool


class RunningCall:
    """`agent_md.sdk.CallContext` of one pass of one call; made anew for each pass. Safe to use from several threads."""

    def __init__(self, run_context: RunContext, call: Call, plan: Plan, requests: Sequence[Request]) -> None:
        """`requests` are those of the call that count, all decided."""
        self._run_context = run_context
        self._call = call
        self._plan = plan
        self._lock = threading.Lock()
        self._known: dict[RequestId, Request] = {
            first_id(request.id): request for request in requests if request.source is RequestSource.TOOL
        }
        self._seen: set[RequestId] = set()
        self._occurrences: Counter[str] = Counter()
        self._steps: dict[int, StepRecord] = run_context.store.steps(run_context.execution_id, call.position)
        self._next_step = 0
        self._fault: str | None = None
        self._raised: list[_Raised] = []
        self._over = False
        self.asked: list[NewRequest] = []
        """The requests of this pass that have no answer yet."""

    @property
    def info(self) -> Context:
        execution = self._run_context.execution
        # The number alone would not do: another workspace, and a new store, count from 1 too.
        unique = f"{execution.id}-{execution.created_at * 1e6:.0f}-{self._call.position}"
        return Context(
            agent=self._run_context.spec.name,
            execution_id=execution.id,
            session_id=execution.session_id,
            workspace=self._run_context.workspace,
            idempotency_key=f"agentmd-{unique}",
            resolver=self._run_context.resolve_path,
            tool_call_id=self._call.call_id,
        )

    def earlier_result(self, result_id: str) -> str | None:
        found = _RESULT_ID.fullmatch(result_id)
        if found is None:
            return None
        execution_id, turn, index = (int(number) for number in found.groups())
        try:
            execution = self._run_context.store.execution(ExecutionId(execution_id))
        except UnknownExecution:
            return None
        mine = self._run_context.execution
        together = mine.session_id is not None and (execution.agent, execution.session_id) == (
            mine.agent,
            mine.session_id,
        )
        if execution.id != mine.id and not together:
            return None
        call = self._run_context.store.call(execution.id, Position(turn, index))
        return None if call is None else call.result

    def fault(self, pause: Pause | None = None) -> str | None:
        """Why the run of the tool counts as failed, whatever the tool did about it; None if it does not. `pause`: the
        pause that ended it."""
        if self._fault is not None:
            return self._fault
        if pause is None:
            return PAUSE_SWALLOWED if self.asked else None
        raised = next((raised for raised in self._raised if raised.pause is pause), None)
        if raised is None:
            return "the tool raised a Pause of its own; ask with the functions of agent_md.sdk instead"
        return PAUSE_SWALLOWED if raised.late else self._changed_questions()

    def _changed_questions(self) -> str | None:
        new = [request for request in self.asked if request.id not in self._known]
        missed = [request for key, request in self._known.items() if key not in self._seen]
        if not new or not missed:
            return None
        return (
            f"the tool is not deterministic: it asked {missed[0].message!r} before, and now {new[0].message!r} "
            "in its place; ask the same questions in the same way each time, and keep what changes in a step"
        )

    def end(self) -> None:
        """Ends the pass: what the tool left running, in a task or a thread, gets no further than its next request or
        step."""
        with self._lock:
            self._over = True

    def ask(self, kind: RequestKind, message: str, **fields: Any) -> Answer:
        return self.ask_from(current_strand(), kind, message, fields, inside=in_step())

    def ask_from(
        self, strand: Strand, kind: RequestKind, message: str, fields: dict[str, Any], *, inside: bool
    ) -> Answer:
        """As `ask`, for code that runs on another strand than this, `inside` a step or not."""
        with self._lock:
            self._check_runs()
            self._check_outside_step("a request was raised", inside)
            request = self._identify(kind, message, fields)
            self._seen.add(request.id)
            known = self._known.get(request.id)
            if known is not None and known.answer is not None:
                return known.answer
            self.asked.append(request)
            pause = Pause()
            late = any(earlier.strand == strand or earlier.strand.has_ended() for earlier in self._raised)
            self._raised.append(_Raised(pause, strand, late))
        raise pause

    def _check_runs(self) -> None:
        if self._over:
            raise Pause

    def _check_outside_step(self, what: str, inside: bool) -> None:
        if inside:
            self._fault = f"{what} inside a step; do it before the step or after it"
            raise ToolError(self._fault)

    def _identify(self, kind: RequestKind, message: str, fields: dict[str, Any]) -> NewRequest:
        content = json.dumps({"kind": kind, "message": message, **fields}, sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        occurrence = self._occurrences[digest]
        self._occurrences[digest] += 1
        suffix = digest[:12] + (f"-{occurrence}" if occurrence else "")
        return NewRequest(
            id=RequestId(f"{self._run_context.execution_id}-{self._call.position}-{suffix}"),
            position=self._call.position,
            source=RequestSource.TOOL,
            kind=kind,
            message=message,
            digest=digest,
            action_digest=self._plan.digest,
            tool_source=self._plan.source,
            occurrence=occurrence,
            expires_in=self._run_context.spec.confirm_timeout,
            **fields,
        )

    def step(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return run_step(self, function, args, kwargs)

    def next_step(self, name: str, *, inside: bool) -> tuple[int, StepRecord | None]:
        with self._lock:
            self._check_outside_step(
                "another step was begun", inside
            )  # a kept one would not begin it, and shift the others
            number = self._next_step
            self._next_step += 1
            record = self._steps.get(number)
            if record is not None and record.function != name:
                self._fault = (
                    f"step {number + 1} was {record.function} before and is {name} now; "
                    "the steps of a tool must come in the same order each time"
                )
                raise ToolError(self._fault)
            return number, record

    def begin_step(self, number: int, name: str) -> None:
        with self._lock:
            self._check_runs()
            try:
                self._run_context.journal.begin_step(self._call.position, number, name)
            except (CallClosed, CancelRequested) as ended:
                raise Pause from ended  # as for what goes on after the end of its pass: it must not be swallowed

    def end_step(self, number: int, result: Any, error: dict[str, Any] | None) -> None:
        redactor = self._run_context.redactor
        kept = None if error is None else redactor.value(error)
        self._run_context.journal.end_step(self._call.position, number, redactor.value(result), kept)

"""What a running tool call sees of the runner: its questions, its steps, its whereabouts.

A request is known by its content, never by the order of calls: LangGraph matches several interrupts of one task by
order, and would give one question's answer to another.
"""

from __future__ import annotations

import contextvars
import hashlib
import inspect
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from agent_md.errors import ToolError
from agent_md.executions.model import (
    Answer,
    Call,
    CallState,
    NewRequest,
    Request,
    RequestId,
    RequestKind,
    RequestSource,
    StepRecord,
)
from agent_md.graph.bench import Bench
from agent_md.sdk import Context, Pause, StepUnknown

__all__ = ["RunningCall", "StepFailed"]

_in_step: contextvars.ContextVar[bool] = contextvars.ContextVar("agentmd_in_step", default=False)


class StepFailed(ToolError):
    """Stands for a kept exception of a step whose class cannot be made again; the text is the same."""


class RunningCall:
    """`agent_md.sdk.CallContext` of one pass of one call; made anew for each pass. Safe to use from several threads."""

    def __init__(self, bench: Bench, call: Call) -> None:
        self._bench = bench
        self._call = call
        self._lock = threading.Lock()
        self._known: dict[RequestId, Request] = {
            request.id: request
            for request in bench.store.requests(bench.execution_id)
            if request.position == call.position and request.source is RequestSource.TOOL
        }
        self._seen: set[RequestId] = set()
        self._occurrences: Counter[str] = Counter()
        self._steps: dict[int, StepRecord] = bench.store.steps(bench.execution_id, call.position)
        self._next_step = 0
        self._fault: str | None = None
        self.asked: list[NewRequest] = []
        """The requests of this pass that have no answer yet."""

    @property
    def info(self) -> Context:
        execution = self._bench.execution
        return Context(
            agent=self._bench.spec.name,
            execution_id=execution.id,
            session_id=execution.session_id,
            workspace=self._bench.workspace,
            idempotency_key=f"agentmd-{execution.id}-{self._call.position}",
            resolver=self._bench.resolve_path,
        )

    @property
    def fault(self) -> str | None:
        """Why this pass breaks the rules of asking and of steps, if it does, whatever the tool made of it."""
        if self._fault is not None:
            return self._fault
        new = [request for request in self.asked if request.id not in self._known]
        if new and (missed := [request for key, request in self._known.items() if key not in self._seen]):
            return (
                f"the tool is not deterministic: it asked {missed[0].message!r} before, and now {new[0].message!r} "
                "in its place; ask the same questions in the same way each time, and keep what changes in a step"
            )
        return None

    def ask(self, kind: RequestKind, message: str, **fields: Any) -> Answer:
        with self._lock:
            if _in_step.get():
                self._fault = "a request was raised inside a step; ask before the step or after it"
                raise ToolError(self._fault)
            request = self._identify(kind, message, fields)
            self._seen.add(request.id)
            known = self._known.get(request.id)
            if known is not None and known.answer is not None:
                return known.answer
            self.asked.append(request)
        raise Pause

    def _identify(self, kind: RequestKind, message: str, fields: dict[str, Any]) -> NewRequest:
        content = json.dumps({"kind": kind, "message": message, **fields}, sort_keys=True, ensure_ascii=False)
        digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
        occurrence = self._occurrences[digest]
        self._occurrences[digest] += 1
        suffix = digest[:12] + (f"-{occurrence}" if occurrence else "")
        return NewRequest(
            id=RequestId(f"{self._bench.execution_id}-{self._call.position}-{suffix}"),
            position=self._call.position,
            source=RequestSource.TOOL,
            kind=kind,
            message=message,
            digest=digest,
            occurrence=occurrence,
            expires_in=self._bench.spec.confirm_timeout,
            **fields,
        )

    def step(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(type(function)))}"
        with self._lock:
            number = self._next_step
            self._next_step += 1
            record = self._steps.get(number)
            if record is not None and record.function != name:
                self._fault = (
                    f"step {number + 1} was {record.function} before and is {name} now; "
                    "the steps of a tool must come in the same order each time"
                )
                raise ToolError(self._fault)
        if inspect.iscoroutinefunction(function):
            return self._async_step(number, name, record, function, args, kwargs)
        if record is not None:
            return _kept(record)
        self._begin(number, name)
        token = _in_step.set(True)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            self._failed(number, error)
            raise
        finally:
            _in_step.reset(token)
        return self._ended(number, result)

    async def _async_step(
        self,
        number: int,
        name: str,
        record: StepRecord | None,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if record is not None:
            return _kept(record)
        self._begin(number, name)
        token = _in_step.set(True)
        try:
            result = await function(*args, **kwargs)
        except Exception as error:
            self._failed(number, error)
            raise
        finally:
            _in_step.reset(token)
        return self._ended(number, result)

    def _begin(self, number: int, name: str) -> None:
        self._bench.journal.begin_step(self._call.position, number, name)

    def _ended(self, number: int, result: Any) -> Any:
        try:
            kept = json.loads(json.dumps(result, allow_nan=False))
        except (TypeError, ValueError) as error:
            refused = TypeError(f"the result of a step must be JSON: {error}")
            self._failed(number, refused)
            raise refused from None
        self._bench.journal.end_step(self._call.position, number, kept, None)
        return kept

    def _failed(self, number: int, error: Exception) -> None:
        kind = type(error)
        kept = {"module": kind.__module__, "name": kind.__qualname__, "args": _json_args(error), "text": str(error)}
        self._bench.journal.end_step(self._call.position, number, None, kept)


def _json_args(error: Exception) -> list[Any] | None:
    try:
        args: list[Any] = json.loads(json.dumps(list(error.args), allow_nan=False))
    except (TypeError, ValueError):
        return None
    return args


def _kept(record: StepRecord) -> Any:
    if record.state is not CallState.FINISHED:
        raise StepUnknown(f"the step {record.function} was started before and did not finish: it may have run")
    if record.error is not None:
        raise _kept_error(record.error)
    return record.result


def _kept_error(error: dict[str, Any]) -> Exception:
    module = sys.modules.get(error["module"])  # never imported: what is stored must not load code
    kind = getattr(module, error["name"], None)
    if isinstance(kind, type) and issubclass(kind, Exception) and error["args"] is not None:
        try:
            return kind(*error["args"])
        except Exception:
            return StepFailed(error["text"])
    return StepFailed(error["text"])

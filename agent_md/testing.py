"""Tests of custom tools without a model: runs one call as in an execution, and answers its questions from a list.

    from agent_md.testing import approved, run_tool
    from publishing import publish

    run = run_tool(publish, {"title": "Summer"}, answers=[approved("Publish")])
    assert run.result == "published Summer"

The call goes the way of every call: its arguments are checked, a tool that `requires_approval` asks first, a question
without an answer pauses it, and then it runs again from its start, where finished steps give their first results. What is
stored is stored in memory.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agent_md.agents.spec import AgentSpec, ModelRef, RunSettings
from agent_md.errors import AgentmdError
from agent_md.executions.answers import validate_response
from agent_md.executions.calls import StepRecord
from agent_md.executions.execution import Claim, Execution, NewExecution, Usage
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Request
from agent_md.executions.states import CallOutcome, Outcome, RequestKind, Status, TriggerKind
from agent_md.graph.run_context import RunContext
from agent_md.ports.journal import Journal
from agent_md.ports.progress import ProgressSink
from agent_md.ports.store import NewAnswer
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.tools.base import Plan
from agent_md.tools.custom import CustomTool
from agent_md.tools.forbidden import Forbidden
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.threads import ToolThreads
from agent_md.tools.tool_modules import Source, ToolModule

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.tools import BaseTool

    from agent_md.stores.checkpoints import Checkpoints

__all__ = ["Reply", "ToolRun", "approved", "arun_tool", "chosen", "denied", "expired", "reply", "run_tool", "text"]

_CALL = Position(0, 0)
_WORKER = WorkerId("testing")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to one question: the first open one of this kind (None = any) whose message contains `message`."""

    outcome: Outcome
    response: Any = None
    kind: RequestKind | None = None
    message: str = ""

    def fits(self, request: Request) -> bool:
        """Whether it is meant for this question."""
        return self.kind in (None, request.kind) and self.message in request.message

    def answer(self, request: Request) -> NewAnswer:
        """The answer that is recorded. Raises AnswerRefused for a response that does not fit the question."""
        if self.outcome is Outcome.DENIED and request.kind is not RequestKind.CONFIRM:
            return NewAnswer(request.id, Outcome.DENIED, None)
        if self.outcome is Outcome.EXPIRED:
            return NewAnswer(request.id, Outcome.EXPIRED, None)
        outcome, value = validate_response(request, self.response)
        return NewAnswer(request.id, outcome, value)


def approved(message: str = "") -> Reply:
    """Yes, to a confirmation."""
    return Reply(Outcome.APPROVED, {"approved": True}, RequestKind.CONFIRM, message)


def denied(message: str = "", *, reason: str | None = None) -> Reply:
    """No, to a confirmation; to a question of any other kind, what `--on-ask deny` answers."""
    response = {"approved": False} if reason is None else {"approved": False, "reason": reason}
    return Reply(Outcome.DENIED, response, None, message)


def expired(message: str = "") -> Reply:
    """Nobody answers in time."""
    return Reply(Outcome.EXPIRED, None, None, message)


def text(typed: str, message: str = "") -> Reply:
    """A text, to `request_input`."""
    return Reply(Outcome.ANSWERED, {"text": typed}, RequestKind.INPUT, message)


def chosen(*options: str, message: str = "") -> Reply:
    """These options, to `request_choice`."""
    return Reply(Outcome.ANSWERED, {"selected": list(options)}, RequestKind.CHOICE, message)


def reply(response: Any, message: str = "") -> Reply:
    """Any response as `agentmd respond` and HTTP take it: a JSON value to `interrupt`, `{"answers": {…}}` to
    `request_questions`."""
    return Reply(Outcome.ANSWERED, response, None, message)


@dataclass(frozen=True, slots=True)
class ToolRun:
    """The result of one call. `result` is the text for the model, and `outcome` how the call ended; both are None while
    it waits for an answer that no reply gave."""

    result: str | None
    outcome: CallOutcome | None
    questions: tuple[Request, ...]
    """All that was asked, oldest first, each with its answer if it has one."""
    steps: tuple[StepRecord, ...]
    passes: int
    """How often the tool ran from its start."""

    @property
    def waits_for(self) -> tuple[Request, ...]:
        """The questions that have no answer."""
        return tuple(request for request in self.questions if request.open)


def run_tool(
    tool: BaseTool,
    args: Mapping[str, Any] | None = None,
    *,
    answers: Sequence[Reply] = (),
    workspace: str | os.PathLike[str] | None = None,
    timeout: float = 60,
) -> ToolRun:
    """Runs one call of a tool, sync or async, until it ends, or waits for what no reply answers.

    Each reply is used once, the first that fits an open question. `workspace` is where the tool runs (None = the current
    folder); `timeout` in seconds of work, after which the call ends as unknown. Raises AnswerRefused for a reply that
    fits no response of its question, AgentmdError when the tool cannot be used at all.
    """
    return asyncio.run(arun_tool(tool, args, answers=answers, workspace=workspace, timeout=timeout))


async def arun_tool(
    tool: BaseTool,
    args: Mapping[str, Any] | None = None,
    *,
    answers: Sequence[Reply] = (),
    workspace: str | os.PathLike[str] | None = None,
    timeout: float = 60,
) -> ToolRun:
    """As `run_tool`, where an event loop runs."""
    before = Path.cwd()
    trial = _Trial(tool, dict(args or {}), Path(workspace or before).absolute(), timeout)
    try:
        return await trial.run(list(answers))
    finally:
        trial.close()
        with suppress(OSError):  # the tool may have removed it
            os.chdir(before)


class _Trial:
    """An execution in memory, whose model makes one call."""

    def __init__(self, tool: BaseTool, args: dict[str, Any], workspace: Path, timeout: float) -> None:
        from agent_md.graph.foreign_interrupt import foreign_interrupts

        self._threads = ToolThreads()
        module = _GivenModule(workspace, "given", tool)
        self._tool = _CountedTool(module, tool, self._threads, foreign_interrupts, workspace)
        self._args = args
        self._workspace = workspace
        self._spec = AgentSpec("tester", "", ModelRef("script", "testing"), settings=RunSettings(timeout=timeout))
        self._sandbox = Sandbox(workspace, (), Forbidden(workspace / "agents"))
        self._store = SqliteStore(None, workers=_ThisProcess())

    def close(self) -> None:
        self._threads.close()
        self._store.close()

    async def run(self, replies: list[Reply]) -> ToolRun:
        from agent_md.runner.loop import Runner
        from agent_md.stores.checkpoints import Checkpoints

        checkpoints = Checkpoints(None)
        runner = Runner(self._store, _giving(checkpoints), self._run_context, aside=self._threads.aside)
        try:
            created = self._create()
            claim: Claim | None = Claim(created.id, _WORKER, created.epoch)
            while claim is not None:
                execution = await runner.advance(claim, _Unseen())
                claim = self._answer(execution.id, replies) if execution.status is Status.WAITING else None
        finally:
            checkpoints.close()
        if execution.status is Status.ERROR:
            raise AgentmdError(f"{self._tool.name} cannot be tried: {execution.error}")
        return self._run_of(execution.id)

    def _create(self) -> Execution:
        human = {"type": "human", "data": {"content": "", "id": "human"}}
        return self._store.create(
            NewExecution(self._spec.name, TriggerKind.MANUAL, (human,)),
            spec=self._spec.to_json(),
            spec_digest=self._spec.digest,
            skip_if_waiting=False,
            worker=_WORKER,
        )

    def _answer(self, execution_id: ExecutionId, replies: list[Reply]) -> Claim | None:
        """The claim to go on with what was answered; None if no reply fits."""
        answers: list[NewAnswer] = []
        for request in self._store.requests(execution_id):
            found = next((given for given in replies if given.fits(request)), None) if request.open else None
            if found is not None:
                replies.remove(found)
                answers.append(found.answer(request))
        if not answers:
            return None
        return self._store.record_answers(answers, by="testing", claim_for=_WORKER).claim

    def _run_of(self, execution_id: ExecutionId) -> ToolRun:
        call = self._store.call(execution_id, _CALL)
        assert call is not None
        closed = call.state.closed
        return ToolRun(
            result=call.result if closed else None,
            outcome=call.outcome if closed else None,
            questions=tuple(self._store.requests(execution_id)),
            steps=tuple(step for _, step in sorted(self._store.steps(execution_id, _CALL).items())),
            passes=self._tool.passes,
        )

    def _run_context(self, execution: Execution, spec: AgentSpec, journal: Journal, sink: ProgressSink) -> RunContext:
        return RunContext(
            execution=execution,
            spec=spec,
            store=self._store,
            journal=journal,
            tools={self._tool.name: self._tool},
            call_model=self._call_model,
            usage_of=lambda _: Usage(),
            sink=sink,
            workspace=self._workspace,
            resolve_path=lambda path: self._sandbox.resolve(path, write=False).path,
            aside=self._threads.aside,
            budget_of=lambda _: None,
            close=_nothing_to_close,
        )

    async def _call_model(self, history: Sequence[BaseMessage], *_: object) -> AIMessage:
        from langchain_core.messages import AIMessage

        if any(message.type == "ai" for message in history):
            return AIMessage("Done.")
        return AIMessage("", tool_calls=[{"name": self._tool.name, "args": self._args, "id": "call"}])


@dataclass(frozen=True, slots=True)
class _GivenModule(ToolModule):
    """Stands for the module of a tool that was imported already."""

    tool: BaseTool
    source: Source = field(default_factory=lambda: Source("given", {}))

    def read(self) -> Source:
        return self.source

    def load(self, source: Source) -> ModuleType:
        module = ModuleType(self.name)
        module.tool = self.tool  # type: ignore[attr-defined]
        return module


class _CountedTool(CustomTool):
    passes = 0

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        self.passes += 1
        return await super().run(args, plan)


class _ThisProcess:
    """The `Workers` port where there is one."""

    def alive(self, worker: WorkerId) -> bool:
        return worker == _WORKER

    def worked(self, worker: WorkerId) -> int:
        return int(time.monotonic() * 1000)

    def ended_by_order(self, worker: WorkerId) -> bool:
        return True

    def dead(self) -> list[WorkerId]:
        return []

    def forget(self, worker: WorkerId) -> None:
        """Nothing is left of any."""


class _Unseen:
    """The `ProgressSink` port where nobody looks."""

    def stored(self) -> None:
        """Nothing."""

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        """Nothing."""

    def restart(self, execution_id: ExecutionId, turn: int, *_: int) -> None:
        """Nothing."""


async def _nothing_to_close() -> None:
    """There is nothing."""


def _giving(checkpoints: Checkpoints) -> Callable[[], Checkpoints]:
    return lambda: checkpoints

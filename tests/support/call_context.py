"""A call that answers from a list: what a tool sees of the runner, without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Answer
from agent_md.executions.states import Outcome, RequestKind
from agent_md.sdk import Context, Pause, current_call


@dataclass
class FakeCall:
    """Gives the answers in order to the requests in order; raises Pause when there is none left."""

    answers: list[tuple[Outcome, Any]] = field(default_factory=list)
    asked: list[tuple[RequestKind, str, dict[str, Any]]] = field(default_factory=list)
    workspace: Path = Path("/nowhere")

    @property
    def info(self) -> Context:
        return Context("cleaner", 1, None, self.workspace, "1.0.0", lambda path: self.workspace / path)

    def ask(self, kind: RequestKind, message: str, **fields: Any) -> Answer:
        number = len(self.asked)
        self.asked.append((kind, message, fields))
        if number >= len(self.answers):
            raise Pause
        outcome, value = self.answers[number]
        return Answer(RequestId(f"r{number}"), outcome, value, "anna", 0.0, 0.0)

    def earlier_result(self, result_id: str) -> str | None:
        return None

    def step(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return function(*args, **kwargs)


def answered(value: Any) -> tuple[Outcome, Any]:
    return Outcome.ANSWERED, value


@contextmanager
def running_call(call: FakeCall) -> Iterator[FakeCall]:
    """Makes `call` the one that runs in this context."""
    token = current_call.set(call)
    try:
        yield call
    finally:
        current_call.reset(token)

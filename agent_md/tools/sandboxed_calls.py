"""The runner's side of a sandboxed call: serves the requests of the untrusted process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from agent_md.errors import ToolError
from agent_md.executions.requests import Answer
from agent_md.executions.states import RequestKind
from agent_md.isolation.process import IsolatedProcess, LineTooLong
from agent_md.sdk import CallContext, Pause, checked_request
from agent_md.tools.base import CutOff
from agent_md.tools.forbidden import real_path
from agent_md.tools.results import one_line, storable
from agent_md.tools.sandboxed_protocol import (
    LINE_BYTES,
    answer_json,
    error_from,
    error_json,
    line_of,
    message_of,
    step_json,
)
from agent_md.tools.steps import StepLedger, Strand

__all__ = ["RunnersCall", "context_json", "read_message", "serve_call"]

_MOST_WAITING_STEPS = 1000


class RunnersCall(CallContext, StepLedger, Protocol):
    """A call of the runner that code of another process may ask for."""

    def ask_from(
        self, strand: Strand, kind: RequestKind, message: str, fields: dict[str, Any], *, inside: bool
    ) -> Answer:
        """As `ask`, for code that runs on another strand than this, `inside` a step or not."""


def context_json(call: CallContext) -> dict[str, Any]:
    """What a tool may know of where it runs."""
    info = call.info
    return {
        "agent": info.agent,
        "execution_id": info.execution_id,
        "session_id": info.session_id,
        "workspace": str(real_path(info.workspace)),
        "idempotency_key": info.idempotency_key,
        "tool_call_id": info.tool_call_id,
    }


def read_message(process: IsolatedProcess, tool: str) -> dict[str, Any]:
    """The next message. Raises CutOff when the process has ended, or says what is no message."""
    try:
        line = process.read_line(LINE_BYTES)
        if line:
            return message_of(line)
    except LineTooLong:
        raise CutOff(f"the sandboxed process of {tool} wrote a line of more than {LINE_BYTES} bytes") from None
    except ValueError as error:
        raise CutOff(f"the sandboxed process of {tool} wrote what is no message: {one_line(str(error), 200)}") from None
    said = " ".join(storable(process.last_output()).split())  # not cut again: secrets are taken out later
    raise CutOff(f"the sandboxed process of {tool} ended without a result" + (f": {said}" if said else ""))


def serve_call(process: IsolatedProcess, call: RunnersCall, tool: str) -> str:
    """The result of the call that the process runs.

    Raises Pause as the call did, ToolError for what the tool raised, CutOff when the process ended, and whatever the
    runner raises that is not the tool's.
    """
    serving = _Serving(call)
    while True:
        message = read_message(process, tool)
        if "result" in message:
            return str(message["result"])
        if "error" in message:
            raise error_from(message)
        if "paused" in message:
            serving.pause(message["paused"])
        try:
            reply = line_of(serving.reply(message))
        except (ToolError, TypeError, ValueError) as error:
            reply = line_of(error_json(error))
        process.write_line(reply)


class _Serving:
    """What one call was asked so far."""

    def __init__(self, call: RunnersCall) -> None:
        self._call = call
        self._pauses: list[Pause] = []
        self._strands: dict[int, _KnownStrand] = {}
        self._ended: set[int] = set()
        self._steps: dict[int, str] = {}
        self._begun: set[int] = set()

    def pause(self, number: Any) -> NoReturn:
        """Raises the pause that the tool was left with."""
        if type(number) is int and 0 <= number < len(self._pauses):
            raise self._pauses[number]
        raise Pause

    def reply(self, message: dict[str, Any]) -> dict[str, Any]:
        """The reply to the process. Raises ToolError, TypeError and ValueError, which are sent to it as an error."""
        replies: dict[Any, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "ask": self._ask,
            "next_step": self._next_step,
            "begin_step": self._begin_step,
            "end_step": self._end_step,
            "resolve": self._resolve,
        }
        reply = replies.get(message.get("do"))
        if reply is None:
            raise ValueError("there is no such message")
        try:
            return reply(message)
        except Pause as pause:
            self._pauses.append(pause)
            return {"pause": len(self._pauses) - 1}

    def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        fields = message.get("fields")
        if not isinstance(fields, dict):
            raise ValueError("a request has fields")
        kind = RequestKind(str(message.get("kind")))
        text, checked = checked_request(kind, message.get("message"), fields)
        strand = self._strand(message)
        answer = self._call.ask_from(strand, kind, text, checked, inside=message.get("inside") is True)
        return {"answer": answer_json(answer)}

    def _strand(self, message: dict[str, Any]) -> Strand:
        self._ended.update(number for number in message.get("ended", ()) if type(number) is int)
        number = message.get("strand")
        if type(number) is not int:
            raise ValueError("a request has a strand")
        return self._strands.setdefault(number, _KnownStrand(number, self._ended))

    def _next_step(self, message: dict[str, Any]) -> dict[str, Any]:
        name = message.get("name")
        if not isinstance(name, str) or len(self._steps) >= _MOST_WAITING_STEPS:
            raise ValueError("a step has a name, and a call not too many of them")
        number, record = self._call.next_step(name, inside=message.get("inside") is True)
        if record is None:
            self._steps[number] = name
        return {"number": number, "record": step_json(record)}

    def _begin_step(self, message: dict[str, Any]) -> dict[str, Any]:
        number = message.get("number")
        if type(number) is not int or number not in self._steps:
            raise ValueError("there is no such step")
        self._call.begin_step(number, self._steps.pop(number))
        self._begun.add(number)
        return {}

    def _end_step(self, message: dict[str, Any]) -> dict[str, Any]:
        number, raised = message.get("number"), message.get("raised")
        if type(number) is not int or number not in self._begun or not _is_kept_error(raised):
            raise ValueError("there is no such step")
        self._begun.remove(number)
        self._call.end_step(number, message.get("value"), raised)
        return {}

    def _resolve(self, message: dict[str, Any]) -> dict[str, Any]:
        path = message.get("path")
        if not isinstance(path, str):
            raise TypeError("a path is a text")
        return {"path": str(self._call.info.resolve_path(path))}


@dataclass(frozen=True, slots=True, eq=False)
class _KnownStrand:
    """A strand of the process, by its number there; `ended` are those of which it said that they have ended."""

    number: int
    ended: set[int]

    def has_ended(self) -> bool:
        return self.number in self.ended


def _is_kept_error(error: Any) -> bool:
    if error is None:
        return True
    if not isinstance(error, dict) or error.keys() != {"module", "name", "args", "text"}:
        return False
    texts = all(isinstance(error[name], str) for name in ("module", "name", "text"))
    return texts and (error["args"] is None or isinstance(error["args"], list))

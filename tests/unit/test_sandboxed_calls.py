"""What a sandboxed process says is said by code that nobody trusts: no line of it does more than a tool may."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import ToolError
from agent_md.executions.calls import StepRecord
from agent_md.executions.requests import Answer
from agent_md.executions.states import RequestKind
from agent_md.isolation.process import LineTooLong
from agent_md.redaction import Redactor
from agent_md.sdk import Context, Pause, RequestDenied
from agent_md.tools.base import CutOff
from agent_md.tools.sandboxed_calls import serve_call
from agent_md.tools.steps import Strand


class Lines:
    """A process that says these lines, whatever it is told."""

    def __init__(self, *lines: bytes | dict[str, Any], output: str = "its last words") -> None:
        self._output = output
        self._lines = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
        self.told: list[Any] = []

    def read_line(self, limit: int) -> bytes:
        line = self._lines.pop(0) if self._lines else b""
        if len(line) > limit:
            raise LineTooLong
        return line

    def write_line(self, line: bytes) -> None:
        self.told.append(json.loads(line))

    def last_output(self) -> str:
        return self._output


class Call:
    """A call of the runner that notes what is asked of it."""

    def __init__(self) -> None:
        self.noted: list[Any] = []

    @property
    def info(self) -> Context:
        return Context("worker", 1, None, Path("/nowhere"), "key", self._resolve)

    def _resolve(self, path: str) -> Path:
        raise ToolError(f"{path} is not allowed")

    def ask_from(
        self, strand: Strand, kind: RequestKind, message: str, fields: dict[str, Any], *, inside: bool
    ) -> Answer:
        self.noted.append((kind, message, strand.has_ended()))
        raise Pause

    def next_step(self, name: str, *, inside: bool) -> tuple[int, StepRecord | None]:
        self.noted.append(name)
        return 0, None

    def begin_step(self, number: int, name: str) -> None:
        self.noted.append(("begun", number, name))

    def end_step(self, number: int, result: Any, error: dict[str, Any] | None) -> None:
        self.noted.append(("ended", number, result, error))


def served(*lines: bytes | dict[str, Any]) -> tuple[Lines, Call]:
    """The call after these lines and a result."""
    process, call = Lines(*lines, {"result": "done"}), Call()
    assert serve_call(process, call, "it") == "done"  # type: ignore[arg-type]
    return process, call


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"do": "exec"},
        {"do": ["ask"]},
        {"do": "ask"},
        {"do": "ask", "kind": "confirm", "message": 5, "fields": {}, "strand": 0},
        {"do": "ask", "kind": "call", "message": "x", "fields": {}, "strand": 0},
        {"do": "ask", "kind": "confirm", "message": "x", "fields": [], "strand": 0},
        {"do": "ask", "kind": "confirm", "message": "x", "fields": {}, "strand": "0"},
        {"do": "ask", "kind": "choice", "message": "x", "fields": {"options": ["a", "a"]}, "strand": 0},
        {"do": "ask", "kind": "custom", "message": "", "fields": {"payload": {"a": "x" * 20_000}}, "strand": 0},
        {"do": "ask", "kind": "confirm", "message": "x", "fields": {}, "strand": 0, "ended": 5},
        {"do": "next_step", "name": None},
        {"do": "begin_step", "number": 0},
        {"do": "begin_step", "number": True},
        {"do": "end_step", "number": 0, "value": 1, "raised": None},
        {"do": "resolve", "path": None},
        {"do": "resolve", "path": "../x"},
    ],
)
def test_a_message_that_cannot_be_is_answered_with_an_error(message: dict[str, Any]) -> None:
    process, call = served(message)
    assert [set(told) for told in process.told] == [{"error", "kind"}]
    assert not call.noted


def test_a_step_ends_once_and_only_after_it_began() -> None:
    begin, end = {"do": "begin_step", "number": 0}, {"do": "end_step", "number": 0, "value": 1, "raised": None}
    bad = {**end, "raised": {"module": "os", "name": "x", "args": None, "text": 5}}
    process, call = served({"do": "next_step", "name": "f", "inside": False}, end, begin, begin, bad, end, end)
    assert call.noted == ["f", ("begun", 0, "f"), ("ended", 0, 1, None)]
    assert ["error" in told for told in process.told] == [False, True, False, True, True, False, True]


def test_strands_are_known_by_their_number() -> None:
    ask = {"do": "ask", "kind": "confirm", "message": "x", "fields": {}, "strand": 3, "ended": [], "inside": False}
    process, call = served(ask, {**ask, "message": "y", "ended": [3]})
    assert call.noted == [(RequestKind.CONFIRM, "x", False), (RequestKind.CONFIRM, "y", True)]
    assert process.told == [{"pause": 0}, {"pause": 1}]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"{]\n", "no message"),
        (b"[1]\n", "no message"),
        (b"\xff\xfe\n", "no message"),
        (b"[" * 100_000 + b"\n", "no message"),
        (b"x" * 17_000_000, "a line of more than"),
        (b"", "ended without a result: its last words"),
    ],
)
def test_what_is_no_message_ends_the_call(line: bytes, text: str) -> None:
    with pytest.raises(CutOff, match=text):
        serve_call(Lines(line), Call(), "it")  # type: ignore[arg-type]


def test_what_a_process_wrote_last_is_told_whole_so_that_a_secret_in_it_is_found() -> None:
    secret = "canary-abcdefgh-1234567"
    with pytest.raises(CutOff) as raised:
        serve_call(Lines(b"", output="a" * 485 + secret), Call(), "it")  # type: ignore[arg-type]
    assert "canary" not in Redactor({"CANARY_TOKEN": secret}).text(str(raised.value))


def test_the_end_of_a_call_is_that_of_the_tool() -> None:
    ask = {"do": "ask", "kind": "confirm", "message": "x", "fields": {}, "strand": 0, "inside": False}
    with pytest.raises(RequestDenied, match="no"):
        serve_call(Lines({"error": "no", "kind": "denied"}), Call(), "it")  # type: ignore[arg-type]
    with pytest.raises(ToolError, match="made up"):
        serve_call(Lines({"error": "made up", "kind": "SystemExit"}), Call(), "it")  # type: ignore[arg-type]
    for number in (0, 7, -1, None, "0"):
        with pytest.raises(Pause):
            serve_call(Lines(ask, {"paused": number}), Call(), "it")  # type: ignore[arg-type]

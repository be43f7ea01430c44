"""The protocol between a sandboxed process and its runner: one JSON object per line.

The runner begins with one request: `describe` the tools of a module, `check` arguments, or `call` a tool. While the tool
runs the process asks for what `agent_md.sdk` gives: it sends a message and reads the reply. Its last message is the
outcome. Whatever it says is said by code that is not trusted.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent_md.errors import ToolError
from agent_md.executions.calls import StepRecord
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Answer
from agent_md.executions.states import CallState, Outcome
from agent_md.sdk import RequestDenied, RequestExpired, StepUnknown
from agent_md.tools.module_snapshots import SourceFile
from agent_md.tools.results import storable
from agent_md.tools.tool_modules import Source

__all__ = [
    "LINE_BYTES",
    "answer_from",
    "answer_json",
    "error_from",
    "error_json",
    "line_of",
    "message_of",
    "source_from",
    "source_json",
    "step_from",
    "step_json",
]

LINE_BYTES = 16 * 2**20
"""The longest line; a longer result of a tool is refused."""

_ERRORS: dict[str, type[ToolError]] = {
    "tool": ToolError,
    "denied": RequestDenied,
    "expired": RequestExpired,
    "step_unknown": StepUnknown,
}


def line_of(message: dict[str, Any]) -> bytes:
    """The line, without its end. Raises ValueError for one that is too long."""
    line = storable(json.dumps(message, ensure_ascii=False)).encode()
    if len(line) >= LINE_BYTES:
        raise ValueError(f"it has {len(line)} bytes, at most {LINE_BYTES} are allowed")
    return line


def message_of(line: bytes) -> dict[str, Any]:
    """The message. Raises ValueError for a line that is none."""
    try:
        message = json.loads(line)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(message, dict):
        raise ValueError("it is no object")
    return message


def source_json(source: Source) -> dict[str, Any]:
    """A source with all its files."""
    files = {
        name: [str(file.path), base64.b64encode(file.data).decode(), file.is_package]
        for name, file in source.files.items()
    }
    return {"digest": source.digest, "files": files}


def source_from(data: dict[str, Any]) -> Source:
    """The source that `source_json` wrote."""
    files = {
        name: SourceFile(Path(path), base64.b64decode(text), package)
        for name, (path, text, package) in data["files"].items()
    }
    return Source(data["digest"], files)


def answer_json(answer: Answer) -> dict[str, Any]:
    """What a tool may know of an answer."""
    return {"outcome": answer.outcome, "value": answer.value, "by": answer.answered_by}


def answer_from(data: dict[str, Any]) -> Answer:
    """The answer that `answer_json` wrote, without when it was given."""
    return Answer(RequestId(""), Outcome(data["outcome"]), data["value"], data["by"], 0.0, 0.0)


def step_json(record: StepRecord | None) -> dict[str, Any] | None:
    """What is kept of a step."""
    return None if record is None else asdict(record)


def step_from(data: dict[str, Any] | None) -> StepRecord | None:
    """The record that `step_json` wrote."""
    return None if data is None else StepRecord(**{**data, "state": CallState(data["state"])})


def error_json(error: BaseException) -> dict[str, Any]:
    """An error that passes to the other side: its kind, if it is one that is known there, and its text."""
    kinds = {kind: name for name, kind in _ERRORS.items()}
    return {"error": str(error), "kind": kinds.get(type(error), "tool") if isinstance(error, ToolError) else "tool"}


def error_from(data: dict[str, Any]) -> ToolError:
    """The error that `error_json` wrote."""
    return _ERRORS.get(str(data.get("kind")), ToolError)(str(data.get("error")))

"""Types and parsers for the values of options and arguments."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

from agent_md.agents.model_names import parse_model
from agent_md.agents.spec import ModelRef
from agent_md.agents.value_formats import duration
from agent_md.executions.days import instant_of
from agent_md.executions.ids import ExecutionId
from agent_md.visible_text import one_line

__all__ = [
    "JsonOption",
    "LinesOption",
    "OnAsk",
    "OnAskOption",
    "QuietOption",
    "StaticOption",
    "execution_number",
    "model_ref",
    "session_id",
    "since",
]

_LONGEST_ID = 200


class OnAsk(StrEnum):
    """What to do with a question that nobody can be asked."""

    WAIT = "wait"
    DENY = "deny"
    FAIL = "fail"


def execution_number(text: str) -> ExecutionId:
    """The number of an execution as typed; whether there is one is for the store to say."""
    if re.fullmatch(r"[0-9]{1,18}", text) is None:
        raise typer.BadParameter(
            f"{text!r} is not the number of an execution (`agentmd pending` and `agentmd logs` show them)"
        )
    return ExecutionId(int(text))


def since(text: str) -> float:
    """The instant that a duration before now (`2h`), or a time in ISO 8601, names; in seconds since 1970."""
    with suppress(ValueError):
        return time.time() - duration(text)
    try:
        return instant_of(text, datetime.now().astimezone().tzinfo)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a duration such as 30m, 2h or 7d nor a time such as 2026-03-29T02:30"
        ) from None


def session_id(text: str) -> str:
    """An id as it was given. What cannot be seen or typed again is refused."""
    if not re.fullmatch(rf"\S(?:.{{0,{_LONGEST_ID - 2}}}\S)?", text) or one_line(text) != text:
        raise typer.BadParameter(
            f"{one_line(text)!r} is no session id: 1 to {_LONGEST_ID} visible characters, no blank at either end"
        )
    return text


def model_ref(text: str) -> ModelRef:
    """A model as it was typed; whether it can be used is for `check_model` to say."""
    try:
        return parse_model(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


OnAskOption = Annotated[
    OnAsk,
    typer.Option(help="If nobody can be asked here: leave the question open, deny it, or abort the execution."),
]

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the final answer.")]

LinesOption = Annotated[bool, typer.Option("--json", help="Print one JSON event per line, and never ask.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

StaticOption = Annotated[
    bool, typer.Option("--static", help="Only read files: load no custom tools, so that no trust is needed.")
]

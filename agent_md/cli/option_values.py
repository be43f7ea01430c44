"""Values that options and arguments may have."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

import typer

from agent_md.executions.model import ExecutionId

__all__ = ["JsonOption", "LinesOption", "OnAsk", "OnAskOption", "QuietOption", "execution_number"]


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


OnAskOption = Annotated[
    OnAsk,
    typer.Option(help="A question when nobody can be asked here: leave it waiting, deny it, or abort the execution."),
]

QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the final answer.")]

LinesOption = Annotated[bool, typer.Option("--json", help="Print one event a line as JSON, and never ask.")]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

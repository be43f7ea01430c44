"""The command that runs a program under the supervisor, which ends it with all that it started."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_md.python_command import python_command

__all__ = ["supervised"]

_SUPERVISOR = Path(__file__).with_name("supervisor.py")


def supervised(wanted: int, command: Sequence[str]) -> list[str]:
    """The command line that runs `command` until it ends, or until the other end of the pipe `wanted` is closed."""
    return python_command("-I", "-S", str(_SUPERVISOR), str(wanted), *command)

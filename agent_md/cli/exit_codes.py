"""Exit codes that no error stands for; those of errors are in `agent_md.errors`."""

from __future__ import annotations

__all__ = ["GIVEN_BACK", "INTERRUPTED", "WAITING"]

GIVEN_BACK = 1
"""The process could not go on well and gave the execution back; `resume` goes on with it."""

WAITING = 3
"""An execution is left waiting for an answer."""

INTERRUPTED = 130
"""Ctrl-C, as shells have it: 128 and the number of the signal."""

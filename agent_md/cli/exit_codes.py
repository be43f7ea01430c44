"""Exit codes that no error stands for; those of errors are in `agent_md.errors`."""

from __future__ import annotations

__all__ = ["INTERRUPTED", "WAITING"]

WAITING = 3
"""An execution is left waiting for an answer."""

INTERRUPTED = 130
"""Ctrl-C, as shells have it: 128 and the number of the signal."""

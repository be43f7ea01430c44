"""Functions in forked processes that begin at the same moment."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from tests.support.children import leave_after

__all__ = ["in_processes"]


def in_processes(*functions: Callable[[], object]) -> list[int]:
    """Runs each in a process of its own, all let go at once; their exit codes: 0, 1 after an exception (printed), or
    minus the signal that killed it. No connection to a database may be open when this is called."""
    gate, opener = os.pipe()
    pids = []
    for function in functions:
        pid = os.fork()
        if pid == 0:
            os.close(opener)
            leave_after(partial(_begin_together, gate, function), failed=1)
        pids.append(pid)
    os.close(gate)
    os.close(opener)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _begin_together(gate: int, function: Callable[[], object]) -> None:
    os.read(gate, 1)  # ends when the parent opens the gate
    function()

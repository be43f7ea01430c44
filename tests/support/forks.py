"""Functions in forked processes that begin at the same moment."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

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
            _child(gate, function)
        pids.append(pid)
    os.close(gate)
    os.close(opener)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def _child(gate: int, function: Callable[[], object]) -> None:
    code = 1
    try:
        os.read(gate, 1)  # ends when the parent opens the gate
        function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)

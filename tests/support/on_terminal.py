"""A function of ours on a terminal of its own, in a forked process; also under a shell that knows only job control."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.children import leave_after, take_terminal
from tests.support.forked_terminal import Forked
from tests.support.terminal import Terminal

__all__ = ["FunctionTerminal"]


class FunctionTerminal(Terminal):
    """Runs `function` with the terminal as its standard streams.

    With `shell`, as the foreground job of a shell that says `stopped` when it stops, and gives it the foreground again.
    """

    def __init__(self, function: Callable[[], None], *, shell: bool = False, rows: int = 24, columns: int = 80) -> None:
        self._function = function
        self._shell = shell
        super().__init__([], rows=rows, columns=columns)

    def _start(self, argv: object, slave: int, env: Mapping[str, str | None], cwd: Path | str | None) -> Forked:
        pid = os.fork()
        if pid == 0:
            leave_after(lambda: self._on(slave))
        return Forked(pid)

    def _on(self, slave: int) -> None:
        take_terminal(slave)
        if self._shell:
            _run_as_job(self._function)
        else:
            self._function()


def _run_as_job(function: Callable[[], None]) -> None:
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        function()
        os._exit(0)
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(0, os.getpgrp())
        if not os.WIFSTOPPED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            return
        os.write(1, b"stopped\r\n")
        os.tcsetpgrp(0, job)
        os.kill(job, signal.SIGCONT)

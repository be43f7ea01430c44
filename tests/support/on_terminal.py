"""A function of ours on a terminal of its own, in a forked process; also under a shell that knows only job control."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

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
            _child(slave, self._function, shell=self._shell)
        return Forked(pid)


def _child(slave: int, function: Callable[[], None], *, shell: bool) -> NoReturn:
    code = 70
    try:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in (0, 1, 2):
            os.dup2(slave, number)
        os.closerange(3, 256)
        if shell:
            _run_as_job(function)
        else:
            function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


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

"""The real command line on a terminal, in a forked process: as `Terminal`, without the second that importing takes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from subprocess import TimeoutExpired

from tests.support.children import leave_after, open_streams, run_agentmd, take_terminal
from tests.support.terminal import Terminal, fixed_environment

__all__ = ["Forked", "ForkedTerminal"]


class ForkedTerminal(Terminal):
    """Runs `agentmd` with `args`, or else what `runs` does with them; call `processes.preload` before the first one."""

    runs: Callable[[Sequence[str]], object] = staticmethod(run_agentmd)

    def _start(self, argv: Sequence[str], slave: int, env: Mapping[str, str | None], cwd: Path | str | None) -> Forked:
        pid = os.fork()
        if pid == 0:
            leave_after(lambda: self._run(argv, slave, fixed_environment(env), cwd))
        return Forked(pid)

    def _run(self, args: Sequence[str], slave: int, env: Mapping[str, str], cwd: Path | str | None) -> None:
        take_terminal(slave)
        open_streams()
        os.environ.clear()
        os.environ.update(env)
        if cwd is not None:
            os.chdir(cwd)
        self.runs(args)


class Forked:
    """The part of `subprocess.Popen` that a Terminal needs, for a child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutExpired("agentmd", timeout or 0)
            time.sleep(0.002)
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

"""The real command line on a terminal, in a forked process: as `Terminal`, without the second that importing takes."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import TimeoutExpired
from typing import NoReturn

from tests.support.terminal import Terminal, fixed_environment

__all__ = ["Forked", "ForkedTerminal"]


class ForkedTerminal(Terminal):
    """Runs `agentmd` with `args`; call `processes.preload` before the first one."""

    def _start(self, argv: Sequence[str], slave: int, env: Mapping[str, str | None], cwd: Path | str | None) -> Forked:
        pid = os.fork()
        if pid == 0:
            _child(argv, slave, fixed_environment(env), cwd)
        return Forked(pid)


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


def _child(args: Sequence[str], slave: int, env: Mapping[str, str], cwd: Path | str | None) -> NoReturn:
    code = 70
    try:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in (0, 1, 2):
            os.dup2(slave, number)
        os.closerange(3, 256)  # the test's own end of the terminal among them
        for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it ends with it
        os.environ.clear()
        os.environ.update(env)
        if cwd is not None:
            os.chdir(cwd)
        sys.argv = ["agentmd", *args]
        from agent_md.cli.main import main

        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)

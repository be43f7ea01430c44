"""What a forked process of a test begins and ends with."""

from __future__ import annotations

import fcntl
import os
import sys
import termios
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn

__all__ = ["leave_after", "open_streams", "run_agentmd", "take_terminal"]


def leave_after(work: Callable[[], object], *, failed: int = 70) -> NoReturn:
    """Ends this process after `work`: with 0, with the code of a SystemExit, or with `failed` after any other exception,
    which is printed."""
    code = failed
    try:
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def run_agentmd(args: Sequence[str]) -> None:
    """The real command line with these arguments, on the streams that `open_streams` has opened."""
    from agent_md.cli.main import main

    sys.argv = ["agentmd", *args]
    try:
        main()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # who reads may have left
                stream.flush()


def open_streams() -> None:
    """Standard streams on what the descriptors 0, 1 and 2 are now; pytest's are left alone."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the process ends with it
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def take_terminal(slave: int) -> None:
    """Leads a session of its own whose terminal this is, on the descriptors 0, 1 and 2; the other ones are closed, the
    test's own end of the terminal among them."""
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for number in (0, 1, 2):
        os.dup2(slave, number)
    os.closerange(3, 256)

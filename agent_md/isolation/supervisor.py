"""Runs one program, such as an MCP server or a command, and ends it with all that it started. Started as a program of its
own, with nothing but Python's standard library: `supervisor.py DESCRIPTOR COMMAND [ARGUMENT …]`.

The program has this process's standard input, output and error. DESCRIPTOR is a pipe whose other end only the process
has that wants the program: when it is closed, however that process ended, the program is given a moment to end by
itself, then SIGTERM, then SIGKILL. On Linux whatever it left behind is adopted by this process, and killed too, also what
has left its process group; elsewhere its process group is. The exit code is that of the program, 128 and the number of
the signal that ended it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

__all__: list[str] = []

_BY_ITSELF_S = 0.3
"""How long a program may take to end after its standard input was closed."""
_AFTER_TERM_S = 0.7
_AFTER_KILL_S = 5.0

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOT_STARTED = 127


def main(wanted: int, command: list[str]) -> int:
    """Runs the program until it ends or is not wanted any more; gives its exit code."""
    os.set_inheritable(wanted, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    program = _start(command)
    _let_go_of_pipes()
    code = _reaped(program)
    while code is None:
        ready, _, _ = select.select([wanted, woken], [], [])
        if woken in ready:
            os.read(woken, 1000)
        code = _reaped(program)
        if code is None and wanted in ready:
            code = _wait(program, _BY_ITSELF_S)
            break
    _end(program)
    return _NOT_STARTED if code is None else code


def _start(command: list[str]) -> int:
    parent = os.getpid()
    program = os.fork()
    if program:
        with suppress(OSError):  # it does the same; whoever is first
            os.setpgid(program, program)
        return program
    try:
        with suppress(OSError):
            os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            os.execvp(command[0], command)  # noqa: S606  no shell is what is meant
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(_NOT_STARTED)


def _let_go_of_pipes() -> None:
    """The pipes end with the program, not with this process."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _reaped(program: int) -> int | None:
    """Buries what has ended; the exit code of the program if it is among that, or was."""
    found = None
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                found = os.waitstatus_to_exitcode(ended[1])
    return found


def _wait(program: int, seconds: float) -> int | None:
    deadline = time.monotonic() + seconds
    while (code := _reaped(program)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return code


def _end(program: int) -> None:
    _signal_group(program, signal.SIGTERM)
    deadline = time.monotonic() + _AFTER_TERM_S
    while _has_children() and time.monotonic() < deadline:
        time.sleep(0.01)
    deadline = time.monotonic() + _AFTER_KILL_S
    while True:
        _signal_group(program, signal.SIGKILL)
        for child in _children():
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        if not _has_children() or time.monotonic() > deadline:
            return
        time.sleep(0.005)


def _signal_group(program: int, number: int) -> None:
    with suppress(OSError):
        os.killpg(program, number)


def _has_children() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _children() -> list[int]:
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children") as listed:
            return [int(number) for number in listed.read().split()]
    except OSError:
        return []


def _prctl(option: int, value: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    code = main(int(sys.argv[1]), sys.argv[2:])
    sys.exit(128 - code if code < 0 else code)

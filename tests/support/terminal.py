"""A program on a real terminal: a pty of a given size that it controls, read and typed into like a person would."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tests.support.emulator import shown
from tests.support.trusting import TRUSTED

__all__ = ["Process", "Terminal", "TerminalTimeout", "fixed_environment"]

_TAKE_TERMINAL = (
    "import fcntl, os, sys, termios\n"
    "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    "os.execvpe(sys.argv[1], sys.argv[1:], os.environ)\n"
)
"""Run in the child's new session, so that Ctrl-C reaches it; replaces itself by the program."""


_SEQUENCES = rb"(?:\x1b\[[?0-9;]*[A-Za-z])*"
_LINE_END = rb"\r+\n"


class Process(Protocol):
    """The program on a terminal; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: int, /) -> None: ...

    def kill(self) -> None: ...


class TerminalTimeout(AssertionError):
    """What was waited for did not come; the message has the screen."""


class Terminal:
    """Starts `argv` on a terminal of its own. Use as a context manager: leaving it kills a program that still runs.

    The environment is small and fixed (no colour, no pager); `env` adds to it, and a None in it removes.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: Path | str | None = None,
        rows: int = 24,
        columns: int = 80,
    ) -> None:
        self._size = columns, rows
        self._master, slave = os.openpty()
        self.resize(rows, columns)
        self._output = b""
        self._seen = 0
        self._hung_up = False
        try:
            self._process = self._start(argv, slave, env or {}, cwd)
        finally:
            os.close(slave)

    def _start(self, argv: Sequence[str], slave: int, env: Mapping[str, str | None], cwd: Path | str | None) -> Process:
        """Starts the program as the leader of a session whose terminal is `slave`."""
        return subprocess.Popen(
            [sys.executable, "-ISc", _TAKE_TERMINAL, *argv],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=fixed_environment(env),
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if not self._hung_up:
            os.close(self._master)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def screen(self) -> str:
        """All that the program has written and the terminal has echoed so far, lines ended by `\\n`."""
        return self._output.decode(errors="replace").replace("\r\n", "\n")

    @property
    def shown(self) -> str:
        """What stands on the terminal, with what left it at its top; fails if anything was there to be obeyed."""
        return shown(self.screen, *self._size)

    def expect(self, text: str, timeout: float = 10) -> str:
        """Waits until `text` appears after what was expected before; gives what came up to its end.

        Sequences that move the cursor or change its looks may stand between its characters.
        """
        wanted = re.compile(_SEQUENCES.join(_LINE_END if c == "\n" else re.escape(c.encode()) for c in text))
        deadline = time.monotonic() + timeout
        while (found := wanted.search(self._output, self._seen)) is None:
            if not self._read(deadline):
                raise TerminalTimeout(f"{text!r} did not come; the screen:\n{self.screen}")
        start, self._seen = self._seen, found.end()
        return self._output[start : self._seen].decode(errors="replace").replace("\r\n", "\n")

    def send(self, text: str) -> None:
        """Types a text; `\\x03` is Ctrl-C, `\\x04` is Ctrl-D."""
        rest = memoryview(text.encode())
        while rest:
            rest = rest[os.write(self._master, rest) :]

    def send_line(self, text: str = "") -> None:
        self.send(text + "\n")

    def answer(self, text: str = "") -> None:
        """Types a line, and waits until the question is answered with it."""
        self.send_line(text)
        self.expect(f"{text}\n")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def hang_up(self) -> int:
        """Closes the terminal, as a lost connection does, and gives the program's exit code."""
        self._hung_up = True
        os.close(self._master)
        return self._process.wait(10)

    @property
    def line_mode(self) -> bool:
        """Whether the terminal edits, echoes and hands over whole lines, as it does for a shell's commands."""
        local: int = termios.tcgetattr(self._master)[3]
        return bool(local & termios.ICANON and local & termios.ECHO)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def exit_code(self, timeout: float = 10) -> int:
        """Reads to the end of the output and gives the exit code; negative for a signal."""
        deadline = time.monotonic() + timeout
        while self._read(deadline):
            pass
        try:
            return self._process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise TerminalTimeout(f"the program did not end; the screen:\n{self.screen}") from None

    def _read(self, deadline: float) -> bool:
        """Whether more output came before the deadline and before the end."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            piece = os.read(self._master, 65536)
        except OSError:  # Linux's way to say that no process has the terminal open any more
            return False
        self._output += piece
        return bool(piece)


def fixed_environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """What a program on a terminal here sees: the same on every machine, but for `changes`; None removes."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH", *TRUSTED) if name in os.environ}
    fixed = {"LANG": "C.UTF-8", "TERM": "xterm-256color", "NO_COLOR": "1", "PAGER": ""}
    merged = kept | fixed | changes
    return {name: value for name, value in merged.items() if value is not None}

"""Reads lines in the kernel's line mode, for dumb terminals: the kernel edits and echoes."""

from __future__ import annotations

import asyncio
import os
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from agent_md.errors import AnswerRefused
from agent_md.process.standard_streams import write_now

__all__ = ["LineMode"]

_LONGEST = 4095
"""Bytes of a line that the kernel keeps; it drops what is typed beyond without a word."""
_AT_ONCE_S = 0.05
"""Seconds. A line that comes within them after another was pasted with it."""


class LineMode:
    """Reads texts from one terminal, one after the other. Ctrl-C is SIGINT at any time."""

    def __init__(self, source: int, output: TextIO) -> None:
        self._source = source
        self._output = output

    edits = False

    async def read(self, prompt: str, *, typed_ahead: bool = False, text: str = "") -> str:
        """Returns the line that Enter ended. Lines that arrive at once are one text, and the last one waits for Enter.

        Ignores `text`. Keys pressed before the prompt was written are discarded, even with `typed_ahead`, because they
        were not visible. Raises EOFError at the end of input, AnswerRefused for a line that the kernel has cut.
        """
        with _line_mode(self._source):
            termios.tcflush(self._source, termios.TCIFLUSH)
            write_now(self._output, prompt)
            try:
                lines = await self._lines()
            except BaseException:
                with suppress(OSError, termios.error):
                    termios.tcflush(self._source, termios.TCIFLUSH)
                    write_now(self._output, "\n")
                raise
        if any(len(line) >= _LONGEST for line in lines):
            raise AnswerRefused(
                f"a line of this terminal ends at {_LONGEST} bytes; give a longer answer with a flag of `agentmd respond`"
            )
        return b"\n".join(lines).decode(errors="surrogateescape")

    async def _lines(self) -> list[bytes]:
        typed = await self._read(None)
        while True:
            if not typed.endswith(b"\n"):
                typed += await self._read(None)
            elif more := await self._read(_AT_ONCE_S) or self._begun():
                typed += more
            else:
                return typed[:-1].split(b"\n")

    def _begun(self) -> bytes:
        """What was pasted of a line that has no end yet; it is shown already."""
        before = termios.tcgetattr(self._source)
        at_once = [*before[:6], [*before[6]]]
        at_once[3] &= ~termios.ICANON
        at_once[6][termios.VMIN], at_once[6][termios.VTIME] = 0, 0
        termios.tcsetattr(self._source, termios.TCSANOW, at_once)
        try:
            return os.read(self._source, _LONGEST + 1)
        finally:
            termios.tcsetattr(self._source, termios.TCSANOW, before)

    async def _read(self, patience: float | None) -> bytes:
        """What can be read within so many seconds, None = at any time. Raises EOFError at the end of input."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._source, readable.set)
        try:
            await asyncio.wait_for(readable.wait(), patience)
        except TimeoutError:
            return b""
        finally:
            loop.remove_reader(self._source)
        piece = os.read(self._source, _LONGEST + 1)
        if not piece:
            raise EOFError
        return piece


@contextmanager
def _line_mode(terminal: int) -> Iterator[None]:
    """Whole lines, echoed, as long as this lasts, whatever an earlier program left behind."""
    before = termios.tcgetattr(terminal)
    wanted = [*before]
    wanted[0] |= termios.ICRNL
    wanted[3] |= termios.ICANON | termios.ECHO | termios.ISIG
    if wanted == before:
        yield
        return
    termios.tcsetattr(terminal, termios.TCSADRAIN, wanted)
    try:
        yield
    finally:
        with suppress(termios.error):  # a terminal that is gone needs no modes
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)

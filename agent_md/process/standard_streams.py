"""Redirects the output of tools and their children to a file, and gives them an empty standard input.

A tool's `print` between the JSON lines of a run would break them, and its escape codes would reach the terminal. Its
`input()` would take away what a person answers to a later question.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO, cast

from agent_md.stores.private_files import open_private

__all__ = ["divert_tool_output", "person", "return_streams", "write_now"]

_LARGEST = 5_000_000
"""Size in bytes after which the file is started again."""


class _Diverted(io.TextIOWrapper):
    """A standard stream as tools see it; `person` is the one that still leads to the person, or comes from them."""

    person: TextIO


def person(stream: TextIO) -> TextIO:
    """The stream to or from the person: the given standard stream, or what it was before it was diverted."""
    return cast(TextIO, getattr(stream, "person", stream))


def write_now(stream: TextIO, text: str) -> None:
    """Writes past the stream's buffer, so that a signal handler may do the same at any moment. Raises OSError."""
    data = text.encode(stream.encoding or "utf-8", "backslashreplace")
    while data:
        data = data[os.write(stream.fileno(), data) :]


def divert_tool_output(state_dir: Path) -> None:
    """From now on the standard streams of this process and its children lead to `tools.log` in the state folder, or
    nowhere while there is no such folder, and standard input is empty; only `person` leads out. May be called again when
    there is one."""
    _empty_input()
    target = _open(state_dir / "tools.log") if state_dir.is_dir() else os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        with suppress(OSError, ValueError):
            stream.flush()
        if not isinstance(stream, _Diverted):
            out = open(os.dup(number), "w", encoding=stream.encoding, errors=stream.errors, closefd=False)  # noqa: SIM115 - kept
            binary = open(number, "wb", closefd=False)  # noqa: SIM115 - kept
            diverted = _Diverted(binary, encoding="utf-8", errors="backslashreplace", write_through=True)
            diverted.person = out
            setattr(sys, name, diverted)
        os.dup2(target, number)
    os.close(target)


def _empty_input() -> None:
    if isinstance(sys.stdin, _Diverted):
        return
    with suppress(OSError, ValueError):  # a standard input that is closed is empty
        kept = open(os.dup(0), encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)  # noqa: SIM115 - kept
        nowhere = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        diverted = _Diverted(open(0, "rb", closefd=False))  # noqa: SIM115 - kept
        diverted.person = kept
        sys.stdin = diverted


def return_streams() -> None:
    """The standard streams lead to the person again, for a program that takes the place of this one."""
    with suppress(OSError, ValueError):
        if (source := person(sys.stdin)) is not sys.stdin:
            os.dup2(source.fileno(), 0)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        out = person(stream)
        with suppress(OSError, ValueError):
            out.flush()
            if out is not stream:
                os.dup2(out.fileno(), number)


def _open(path: Path) -> int:
    try:
        descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if os.fstat(descriptor).st_size > _LARGEST:
            os.truncate(descriptor, 0)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    return descriptor

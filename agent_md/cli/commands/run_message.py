"""The message of `run`: from an option, a file, or standard input."""

from __future__ import annotations

import os
import select
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from agent_md.agents.files import Unreadable, decode, read_file
from agent_md.cli.terminal.output import note
from agent_md.errors import UsageError
from agent_md.process.standard_streams import person
from agent_md.workspace import at_home

__all__ = ["has_unread", "message_of"]

LARGEST = 8 << 20
"""Bytes of a message; what a model takes at once is less."""
_NOTHING = "nothing was started"


def message_of(given: str | None, folder: Path) -> str | None:
    """The message that `--message` names: `-` is standard input, `@FILE` a file (relative to `folder`), `@@…` the text
    `@…`, and everything else is itself. One line end at the end of a file or of standard input is left out.

    Raises UsageError for what cannot be read, is empty, no UTF-8 text, or larger than 8 MiB.
    """
    if given == "-":
        return _read_input(person(sys.stdin))
    if given is None or not given.startswith("@"):
        return given
    if given.startswith("@@"):
        return given[1:]
    return _read(given[1:], folder)


def has_unread(source: TextIO) -> bool:
    """Whether there is something to read from a pipe, or from a file of which nothing was read yet. Never waits."""
    with suppress(OSError, ValueError):  # ValueError: it is closed
        found = os.fstat(source.fileno())
        if stat.S_ISREG(found.st_mode):
            return found.st_size > 0 and os.lseek(source.fileno(), 0, os.SEEK_CUR) == 0
        if stat.S_ISFIFO(found.st_mode):
            poll = select.poll()
            poll.register(source, select.POLLIN)
            return any(event & select.POLLIN for _, event in poll.poll(0))
    return False


def _read(name: str, folder: Path) -> str:
    path = folder / at_home(name, Path.home())
    try:
        return _text(read_file(path, LARGEST))
    except Unreadable as error:
        raise UsageError(
            f"--message: the file {name or '(no name)'} {error}; {_NOTHING}. A message that begins with @ is written @@…"
        ) from None


def _read_input(source: TextIO) -> str:
    if source.isatty():
        note("Type the message; Ctrl-D on an empty line ends it.")
    try:
        data = source.buffer.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise Unreadable(f"is larger than {LARGEST // 1024} KiB; make it smaller")
        return _text(data)
    except Unreadable as error:
        raise UsageError(f"--message: standard input {error}; {_NOTHING}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is closed"
        raise UsageError(f"--message: standard input cannot be read: {reason}; {_NOTHING}") from None


def _text(data: bytes) -> str:
    text = decode(data).removesuffix("\n").removesuffix("\r")
    if not text.strip():
        raise Unreadable("is empty")
    return text

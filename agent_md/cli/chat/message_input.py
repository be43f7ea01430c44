"""The source of chat messages: a terminal, or lines of standard input."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from agent_md.cli.asking.prompt import PromptClosed, TerminalPrompt
from agent_md.cli.terminal.interruptible import run_interruptible
from agent_md.cli.views.questions import QuestionText
from agent_md.errors import UsageError
from agent_md.process.standard_streams import person

__all__ = ["Messages", "messages_of"]

_PROMPT = "you> "
_LONGEST_LINE = 8 << 20
"""Bytes. Of a stream that never ends a line nothing could be sent, and it would fill the memory."""


class Messages(Protocol):
    """The messages of one chat, one after the other."""

    def next(self) -> str | None:
        """The next one, as it was given; None at the end of input. Raises KeyboardInterrupt at Ctrl-C."""


def messages_of(
    terminal: TerminalPrompt | None,
    commands: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    *,
    folder: Path | None = None,
    state_dir: Path | None = None,
) -> Messages:
    """Those typed at the terminal; without one the lines of standard input.

    Tab completes `commands`, and files below `folder`. Earlier messages are kept in `state_dir`, else for this chat
    alone.
    """
    if terminal is None:
        return PipedMessages()
    if environ.get("TERM", "dumb") == "dumb":
        return PlainMessages(terminal)
    return TypedMessages(terminal, commands, folder, state_dir)


class TypedMessages:
    """Typed at a terminal, with the line editor. What was typed while there was no prompt is put into the next message,
    and waits for Enter like all else."""

    def __init__(
        self, terminal: TerminalPrompt, commands: Sequence[str], folder: Path | None, state_dir: Path | None
    ) -> None:
        from prompt_toolkit.history import InMemoryHistory  # only who types messages pays for it

        from agent_md.cli.chat.completion import ChatCompleter
        from agent_md.cli.chat.history import ChatHistory
        from agent_md.cli.terminal.line_editor import LineEditor

        self._editor = LineEditor(
            person(sys.stdin).fileno(),
            person(sys.stdout),
            colour=terminal.screen.colour,
            history=InMemoryHistory() if state_dir is None else ChatHistory(state_dir),
            completer=ChatCompleter(commands, folder),
        )

    def next(self) -> str | None:
        try:
            return run_interruptible(self._editor.read(_PROMPT, typed_ahead=True))
        except (EOFError, OSError, termios.error):
            return None


class PlainMessages:
    """Typed at a terminal on which nothing can be drawn."""

    def __init__(self, terminal: TerminalPrompt) -> None:
        self._terminal = terminal

    def next(self) -> str | None:
        try:
            return run_interruptible(self._terminal.ask(QuestionText((), (), _PROMPT), str))
        except PromptClosed:
            return None


class PipedMessages:
    """The lines of standard input, each when it is there. Nobody else may read from it: see `divert_tool_output`."""

    def __init__(self) -> None:
        self._source = os.dup(person(sys.stdin).fileno())
        self._lines = self._read()

    def next(self) -> str | None:
        try:
            return next(self._lines, None)
        except OSError as error:
            raise UsageError(f"standard input cannot be read: {error.strerror}") from None

    def _read(self) -> Iterator[str]:
        with open(self._source, "rb") as lines:
            while line := lines.readline(_LONGEST_LINE + 1):
                if len(line) > _LONGEST_LINE:
                    raise UsageError(
                        f"a line of standard input is longer than {_LONGEST_LINE >> 20} MiB; nothing of it was sent"
                    )
                # As in arguments: a byte that is no text becomes a surrogate, which is shown as an escape.
                yield line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="surrogateescape")

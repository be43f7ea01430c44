"""What every chat has in common, whoever drives its turns: which messages are commands, and how it ends."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NoReturn

from agent_md.agents.names import nearest
from agent_md.cli.chat.message_input import Messages
from agent_md.cli.command_context import screen
from agent_md.cli.exit_codes import INTERRUPTED
from agent_md.cli.terminal.output import NoReader, note, say
from agent_md.cli.terminal.signals import taken_over
from agent_md.cli.views.visible_text import wrapped

__all__ = ["COMMANDS", "ChatLines", "ChatOver", "code_of_chat", "messages_to_agent", "nobody_reads"]

_ENDS = ("/exit", "/quit")
_HELP = "/help"
COMMANDS = (*_ENDS, _HELP)
"""What is obeyed when it is typed, and not sent."""
_COMMAND = re.compile(r"/[a-z]+\s*")
"""What looks like a command; with a blank before it, it is a message."""


class ChatOver(BaseException):
    """The chat ends; `code` is the exit code. No Exception: a signal may raise it inside of any library's `except`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ChatLines:
    """Visible lines of ours: between the turns where somebody `talks` at a terminal, else to standard error, away from
    the answers. That nobody reads them is no reason to stop."""

    def __init__(self, *, talks: bool) -> None:
        self._talks = talks

    def tell(self, *lines: str) -> None:
        """Empty lines are for a terminal alone."""
        for line in lines:
            if self._talks:
                self._say(line)
            elif line:
                note(line)

    def explain(self, *lines: str) -> None:
        """As `tell`, folded at words."""
        self.tell(*(piece for line in lines for piece in wrapped(line, screen().width)))

    def _say(self, line: str) -> None:
        with suppress(NoReader, OSError):
            say(line)


def messages_to_agent(
    messages: Messages, tell: Callable[..., None], help_lines: Sequence[str], *, typed: bool
) -> Iterator[str]:
    """The messages that are meant for the agent, as they were given; the commands among them are obeyed.

    What is `typed` may be a mistake: what looks like a command and is none is not given, and `tell` says so. Lines of
    a program are all meant as they are, except those that end the chat.
    """
    while (text := messages.next()) is not None:
        word = text.strip()
        if word in _ENDS:
            raise ChatOver(0)
        if typed and word == _HELP:
            tell(*help_lines)
        elif typed and _COMMAND.fullmatch(text):
            tell(_no_command(word))
        elif word:
            yield text


def _no_command(word: str) -> str:
    near = nearest(word, COMMANDS)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(COMMANDS)}."
    return f"  there is no command {word}; {hint} To send it, put a blank before it"


def nobody_reads(tell: Callable[..., None], code: int) -> NoReturn:
    """Ends a chat of a program whose answers reach nobody: the model is not asked for them."""
    tell("Nobody gets the answers any more; no further message is sent.")
    raise ChatOver(code)


def code_of_chat(talk: Callable[[], int]) -> int:
    """The exit code of a chat. SIGTERM and SIGHUP end it in order while it waits for a message; a turn has handlers of
    its own."""
    try:
        with taken_over((signal.SIGTERM, signal.SIGHUP), _end):
            return talk()
    except ChatOver as over:
        return over.code
    except KeyboardInterrupt:
        return INTERRUPTED


def _end(number: int) -> NoReturn:
    raise ChatOver(128 + number)

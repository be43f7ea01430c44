"""The main loop of local and remote chats: reads messages, runs commands, ends the chat."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NoReturn

from rich.console import RenderableType

from agent_md.agents.names import nearest
from agent_md.cli.chat.message_input import Messages
from agent_md.cli.exit_codes import INTERRUPTED
from agent_md.cli.terminal.output import NoReader, note, say
from agent_md.cli.terminal.signals import taken_over
from agent_md.cli.views.hanging import paragraph
from agent_md.errors import UsageError
from agent_md.visible_text import one_line

__all__ = ["COMMANDS", "ChatEnded", "ChatLines", "Commands", "code_of_chat", "messages_to_agent", "nobody_reads"]

_ENDS = ("/exit", "/quit")
COMMANDS = (*_ENDS, "/help", "/clear", "/history", "/cost", "/agents", "/model")
"""What is obeyed when it is typed, and not sent."""
_COMMAND = re.compile(r"(?P<name>/[a-z]+)\s*|(?P<takes>/model)\s+(?P<argument>\S+)\s*")
"""What looks like a command; with a blank before it, it is a message."""

Commands = Mapping[str, Callable[[str], Iterable[RenderableType]]]
"""What each command does with its argument, which may be empty: its visible lines. Raises UsageError."""


class ChatEnded(BaseException):
    """The chat ends; `code` is the exit code. No Exception: a signal may raise it inside of any library's `except`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ChatLines:
    """Visible lines of ours: between the turns where somebody `talks` at a terminal, else to standard error, away from
    the answers. That nobody reads them is no reason to stop."""

    def __init__(self, *, talks: bool) -> None:
        self._talks = talks

    def tell(self, *lines: RenderableType) -> None:
        """Visible lines and renderables. Empty lines are for a terminal alone."""
        for line in lines:
            if self._talks:
                self._say(line)
            elif line:
                note(line)

    def explain(self, *lines: RenderableType) -> None:
        """As `tell`, with texts folded at words."""
        self.tell(*(paragraph(line) if line and isinstance(line, str) else line for line in lines))

    def _say(self, line: RenderableType) -> None:
        with suppress(NoReader, OSError):
            say(line)


def messages_to_agent(
    messages: Messages, tell: Callable[..., None], commands: Commands, *, typed: bool
) -> Iterator[str]:
    """The messages that are meant for the agent, as they were given; the commands among them are obeyed.

    What is `typed` may be a mistake: what looks like a command and is none is not given, and `tell` says so. Lines of
    a program are all meant as they are, except those that end the chat.
    """
    while (text := messages.next()) is not None:
        word = text.strip()
        if word in _ENDS:
            raise ChatEnded(0)
        if typed and (found := _COMMAND.fullmatch(text)) is not None:
            tell(*_obeyed(found["name"] or found["takes"], found["argument"] or "", commands))
        elif word:
            yield text


def _obeyed(name: str, argument: str, commands: Commands) -> list[RenderableType]:
    if name not in commands:
        return [_no_command(name)]
    try:
        return list(commands[name](argument))
    except UsageError as error:
        return [f"  {one_line(str(error))}"]


def _no_command(word: str) -> str:
    near = nearest(word, COMMANDS)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(COMMANDS)}."
    return f"  there is no command {word}; {hint} To send it, put a blank before it"


def nobody_reads(tell: Callable[..., None], code: int) -> NoReturn:
    """Ends a chat of a program whose answers reach nobody: the model is not asked for them."""
    tell("Nobody gets the answers any more; no further message is sent.")
    raise ChatEnded(code)


def code_of_chat(talk: Callable[[], int]) -> int:
    """The exit code of a chat. SIGTERM and SIGHUP end it in order while it waits for a message; a turn has handlers of
    its own."""
    try:
        with taken_over((signal.SIGTERM, signal.SIGHUP), _end):
            return talk()
    except ChatEnded as over:
        return over.code
    except KeyboardInterrupt:
        return INTERRUPTED


def _end(number: int) -> NoReturn:
    raise ChatEnded(128 + number)
